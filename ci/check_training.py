#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with a built `tenon`: the accuracy is reached, a model of text beats the bigrams that `tenon` fits beside it,
and the same seed and threads give the same bits.

python3 ci/check_training.py --epochs 5 --accuracy 0.86 build/release
python3 ci/check_training.py --model transformer --epochs 1 build/release
"""
import argparse
import json
import os
import subprocess
import sys


def train(build, model, epochs):
    """The last object that `tenon train --json` prints."""
    command = [os.path.join(build, "bin/tenon"), "train", "--model", model, "--epochs", str(epochs), "--seed", "7",
               "--threads", "2", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accuracy", type=float, default=0)
    parser.add_argument("--model", default="mlp", choices=["mlp", "cnn", "transformer"])
    parser.add_argument("--repeats", type=int, default=2, help="runs of one epoch whose weights are compared")
    parser.add_argument("build")
    options = parser.parse_args()
    result = train(options.build, options.model, options.epochs)
    print(f"{options.model}: test accuracy {result['test_accuracy']:.4f} after {options.epochs} epochs, "
          f"{result['seconds']:.1f} s, on {result['device']}")
    good = result["test_accuracy"] >= options.accuracy
    if not good:
        print(f"expected at least {options.accuracy}")
    if options.model == "transformer":
        print(f"test loss {result['test_loss']:.4f} nats a character, add-one bigrams {result['bigram_loss']:.4f}")
        good = good and result["test_loss"] < result["bigram_loss"]
    if len({train(options.build, options.model, 1)["weights_sha256"] for _ in range(options.repeats)}) > 1:
        print("runs of one epoch with the same seed and threads gave different weights")
        good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
