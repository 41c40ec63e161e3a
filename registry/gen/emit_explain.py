def compile_all(registry):
    pass
def emit_explain(registry):
    return ""
