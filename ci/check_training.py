#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with a built `tenon`: the accuracy is reached, and the same seed and threads give the same bits.

python3 ci/check_training.py --epochs 5 --accuracy 0.86 build/release
"""
import argparse
import json
import os
import subprocess
import sys


def train(build, epochs):
    """The last object that `tenon train --json` prints."""
    command = [os.path.join(build, "bin/tenon"), "train", "fashion-mnist", "--model", "mlp", "--epochs", str(epochs),
               "--seed", "7", "--threads", "2", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0.86)
    parser.add_argument("build")
    options = parser.parse_args()
    result = train(options.build, options.epochs)
    print(f"test accuracy {result['test_accuracy']:.4f} after {options.epochs} epochs, {result['seconds']:.1f} s, "
          f"on {result['device']}")
    good = result["test_accuracy"] >= options.accuracy
    if not good:
        print(f"expected at least {options.accuracy}")
    hashes = {train(options.build, 1)["weights_sha256"] for _ in range(2)}
    if len(hashes) != 1:
        print("two runs of one epoch with the same seed and threads gave different weights")
        good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
