"""The rows of `scripts/bench clients`: calls that clients of protocols use, beside the code that would replace them.

Each file of clients/ is run by rlhost, once in a round, and prints a line for each row: its label, the seconds of both
ways, and the goal for their ratio, separated by tabs. Both ways take turns in one process. The median of the rounds'
ratios counts."""
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "clients"


def measure(options):
    """Prints the table. Returns an exit status: 1 if a file fails."""
    rounds = 1 if options.quick else 3
    rows, status = {}, 0
    for _ in range(rounds):
        for path in sorted(HERE.glob("*.lua")):
            command = [options.host, str(path), "0.1" if options.quick else "1"]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                print(f"{path.name}: {run.stderr.strip()}", file=sys.stderr)
                status = 1
            for line in run.stdout.splitlines():
                label, ours, theirs, goal = line.split("\t")
                rows.setdefault(label, (float(goal), []))[1].append((float(ours), float(theirs)))
    print(f"{'':58} {'µs':>7} {'without':>8} {'ratio':>6}  goal")
    for label, (goal, samples) in rows.items():
        if options.only and options.only.lower() not in label.lower():
            continue
        ours, theirs = (statistics.median(sample[i] for sample in samples) * 1e6 for i in (0, 1))
        ratio = statistics.median(a / b for a, b in samples)
        print(f"{label:58} {ours:7.3f} {theirs:8.3f} {ratio:6.2f}  {'✓' if round(ratio, 2) <= goal else '✗'} {goal:g}")
    return status
