def compile_all(registry):
    pass
def emit_samples(registry):
    return ""
