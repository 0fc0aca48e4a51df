"""Thirty customers, each with a question of their own about digits: buy labels one at a time until `advise` says stop.

A customer wants to tell two digits apart. Labels cost money, and nobody has a test set. Here we do have one, to see how
good the advice was; the learner never sees it.
"""

import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import anyshot

customers = int(sys.argv[1]) if len(sys.argv) > 1 else 30
first = 22  # customers for whom 30 labels are bought in any case: what past tasks showed is needed for advice
digits, draw = load_digits(), np.random.default_rng(0)
images = (digits.images / 16).astype(np.float32).reshape(-1, 64)
bought, alone = [], []

with tempfile.TemporaryDirectory() as folder:
    life = anyshot.Lifelong(folder, network={"kind": "mlp", "hidden": [64]})
    for customer in range(customers):
        one, other = draw.choice(10, 2, replace=False)
        rows = draw.permutation(np.flatnonzero((digits.target == one) | (digits.target == other)))
        x, labels = images[rows], np.where(digits.target[rows] == one, "ours", "not ours")
        pool, test = x[100:150], slice(150, None)
        task = life.task(f"customer {customer}", classes=["ours", "not ours"])
        for number in range(100):
            advice = task.advise(target=0.9, price=0.40, budget=40 - 0.40 * number, unlabelled=pool)
            if (advice.action != "buy") if customer >= first else (number == 30):
                break
            task.observe(x[number : number + 1], labels[number : number + 1])
        accuracy = np.mean(task.predict(x[test]) == labels[test])
        estimate = task.estimate(pool)
        task.close()
        life.learn()
        if customer >= first:
            bought.append((task.labels, accuracy))
            fresh = [
                np.mean(LogisticRegression().fit(x[:n], labels[:n]).predict(x[test]) == labels[test])
                for n in range(2, 60)
                if len(set(labels[:n])) == 2
            ]
            needed = next((n for n, right in enumerate(fresh, 2) if right >= 0.9), 60)
            alone.append(needed)
        print(f"{task.name}: {one} or {other}, {task.labels} labels, accuracy {accuracy:.2f}; {estimate}; {advice}")
    life.close()

if bought:
    count, right = np.array(bought).T
    print(f"after the first {first} customers: {count.mean():.1f} labels a customer, ${0.4 * count.sum():.2f} in all,")
    print(f"accuracy {right.mean():.2f}, below 0.9 for {np.mean(right < 0.9):.0%} of them;")
    print(f"a fresh model for each, stopped by a test set that nobody has: {np.mean(alone):.1f} labels")
