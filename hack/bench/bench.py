#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the collection with raw, ping and built-in modules, on a host of its own.

All that is compared runs by turns, round after round, on one host over one open
connection. A ratio is taken within each round; what is printed is the median of
the rounds' ratios, with the lowest and the highest. The tables are Markdown, on
standard output. Needs root, for the host.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent.parent
HOST = "bench"
SYSTEMD = "257"

ROUNDS = 5
# Of a loop. The first item bears what a task costs once; it is not counted.
ITEMS = 11
# Makes candidates as large as daemons commonly are, with bytes that do not compress.
PADDING = "8M"
# The module's default for health.stable_for, in seconds.
STABLE_WINDOW = 3.0
# Where root's copy of the module's binary is kept on a host.
BINARY_CACHE = "/var/cache/lastgood"


@dataclass(frozen=True)
class Job:
    """One way to run a playbook."""

    name: str
    playbook: str
    service: str = "managed"
    pipelining: bool | None = None  # None leaves Ansible's default
    upgrade: bool = False
    changed: bool = False  # what the run must report to be counted
    waits: float = 0.0  # seconds that it waits by design


RAW = Job("raw `/bin/true`", "raw.yml", changed=True)
PING_PIPELINED = Job("`ping`, pipelined", "ping.yml", pipelining=True)
PING = Job("`ping`", "ping.yml", pipelining=False)
INFO = Job("lastgood, info", "info.yml")
SAME = Job("lastgood, unchanged", "lastgood.yml")
CHANGE = Job("lastgood, change", "lastgood.yml", upgrade=True, changed=True, waits=STABLE_WINDOW)
BASE_SAME = Job("baseline, unchanged", "baseline.yml", "baseline", pipelining=False)
BASE_CHANGE = Job("baseline, change", "baseline.yml", "baseline", pipelining=False, upgrade=True, changed=True)
PIPELINED_SAME = Job("baseline pipelined, unchanged", "baseline.yml", "baseline", pipelining=True)
PIPELINED_CHANGE = Job("baseline pipelined, change", "baseline.yml", "baseline", pipelining=True, upgrade=True, changed=True)

LOOPS = [RAW, PING_PIPELINED, PING, INFO, SAME]
PLAYBOOKS = [*LOOPS, BASE_SAME, PIPELINED_SAME, CHANGE, BASE_CHANGE, PIPELINED_CHANGE]


@dataclass(frozen=True)
class Cost:
    """The seconds that one run took."""

    whole: float  # ansible-playbook, from its start to its end
    play: float  # the play alone, without Ansible's own start and end
    item: float  # one more item of the loop, 0 where there is only one


@dataclass(frozen=True)
class Candidate:
    path: Path
    sha256: str


def run(*command: object, env: dict[str, str] | None = None) -> str:
    """Returns what a command printed, and ends the benchmark if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def testhost(*arguments: object) -> str:
    return run(ROOT / "hack/testhost", *arguments)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_candidates(scratch: Path) -> list[Candidate]:
    # A host keeps two, so the third one in turn is always new to it.
    candidates = []
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        path = scratch / f"candidate-{version}"
        run(ROOT / "hack/mkdaemon", path, f"version={version}", f"pad={PADDING}")
        candidates.append(Candidate(path, hashlib.sha256(path.read_bytes()).hexdigest()))
    return candidates


class Service:
    """A daemon of the host, upgraded to its candidates by turns; the first one is active."""

    def __init__(self, name: str, port: int, candidates: list[Candidate]):
        self.name, self.port, self.candidates = name, port, candidates
        self.path = f"/opt/{name}/{name}"

    def start(self) -> None:
        root = Path(testhost("root", HOST))
        run("install", "-D", "-m", "0755", self.candidates[0].path, f"{root}{self.path}")
        unit = (ROOT / "hack/testdaemon/units/simple.service").read_text()
        unit = unit.replace("/usr/local/bin/testdaemon", self.path)
        unit = unit.replace("[Service]\n", f"[Service]\nEnvironment=TESTDAEMON_LISTEN=127.0.0.1:{self.port}\n")
        (root / f"etc/systemd/system/{self.name}.service").write_text(unit)
        testhost("exec", HOST, "systemctl", "daemon-reload")
        testhost("exec", HOST, "systemctl", "start", self.name)

    def variables(self, upgrade: bool) -> dict[str, object]:
        wanted = self.candidates[1 if upgrade else 0]
        return {"path": self.path, "unit": self.name, "health_port": self.port, "src": str(wanted.path), "sha256": wanted.sha256}

    def upgraded(self) -> None:
        self.candidates = [*self.candidates[1:], self.candidates[0]]


class Bench:
    """A host with two services, and Ansible to measure on it."""

    def __init__(self, scratch: Path):
        self.stamps = scratch / "stamps"
        inventory = scratch / "hosts.yml"
        # Nobody's own settings, so Ansible's defaults where a job does not say otherwise.
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        self.env |= {
            "ANSIBLE_CONFIG": str(ROOT / "e2e/testdata/ansible.cfg"),
            "ANSIBLE_HOME": str(scratch / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "dist"),
            "ANSIBLE_INVENTORY": str(inventory),
            "ANSIBLE_CALLBACK_PLUGINS": str(BENCH / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "stamps",
            "STAMPS": str(self.stamps),
        }
        candidates = make_candidates(scratch)
        self.candidate_size = candidates[0].path.stat().st_size
        testhost("start", "--systemd", SYSTEMD, "--python", HOST)
        inventory.write_text(testhost("inventory") + "\n")
        self.services = {
            name: Service(name, port, candidates) for name, port in (("managed", 18001), ("baseline", 18002))
        }
        for service in self.services.values():
            service.start()
        # Once without looking at it: the connection opens and both services get their slots.
        for job in (CHANGE, BASE_CHANGE):
            self.play(job)

    def play(self, job: Job, *options: str, times: int = 1) -> Cost:
        service = self.services[job.service]
        variables = json.dumps(service.variables(job.upgrade) | {"times": times})
        env = dict(self.env)
        if job.pipelining is not None:
            env["ANSIBLE_PIPELINING"] = str(job.pipelining)
        self.stamps.unlink(missing_ok=True)
        begin = time.monotonic()
        printed = run("ansible-playbook", *options, "-e", variables, BENCH / job.playbook, env=env)
        whole = time.monotonic() - begin
        stamps = [json.loads(line) for line in self.stamps.read_text().splitlines()]
        if (stamps[-1]["changed"] > 0) != job.changed:
            sys.exit(f"bench: '{job.name}' did not do what was to be measured:\n{printed}")
        if job.upgrade and "--check" not in options:
            service.upgraded()
        items = [stamp["at"] for stamp in stamps if stamp["event"] == "item"]
        item = (items[-1] - items[0]) / (len(items) - 1) if len(items) > 1 else 0.0
        return Cost(whole, stamps[-1]["at"] - stamps[0]["at"], item)

    def payload(self, job: Job, *options: str) -> tuple[int, int]:
        """Plays a job and returns the bytes that its connection carried to the host and back."""
        before = connection()
        self.play(job, *options)
        after = connection()
        if before[0] != after[0]:
            sys.exit("bench: the connection was opened anew, so its bytes can't be told")
        return after[1] - before[1], after[2] - before[2]


def connection() -> tuple[str, int, int]:
    """Returns the ssh connection's far end and the bytes that the host's kernel counted, received and sent."""
    lines = testhost("exec", HOST, "ss", "-tinHO", "state", "established", "sport", "=", ":22").splitlines()
    if len(lines) != 1:
        sys.exit(f"bench: there is to be one ssh connection, not {len(lines)}: {lines}")
    received, sent = (int(re.search(rf"\b{name}:(\d+)", lines[0])[1]) for name in ("bytes_received", "bytes_sent"))
    return lines[0].split()[3], received, sent


# --- What is printed ---------------------------------------------------------


def spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def ratios(over: list[float], under: list[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    print(f"\n### {title}\n")
    for row in [header, ["---"] * len(header), *rows]:
        print(f"| {' | '.join(row)} |")


def measure_costs(bench: Bench) -> tuple[dict[Job, list[Cost]], dict[Job, list[Cost]]]:
    loops: dict[Job, list[Cost]] = {job: [] for job in LOOPS}
    playbooks: dict[Job, list[Cost]] = {job: [] for job in PLAYBOOKS}
    for number in range(ROUNDS):
        progress(f"round {number + 1} of {ROUNDS}")
        for job in LOOPS:
            loops[job].append(bench.play(job, times=ITEMS))
        for job in PLAYBOOKS:
            playbooks[job].append(bench.play(job))
    return loops, playbooks


def met(wanted: str, values: list[float]) -> str:
    relation, limit = wanted.split()
    reached = median(values) <= float(limit) if relation == "≤" else median(values) >= float(limit)
    return "yes" if reached else "no"


def print_ratios(item: dict[Job, list[float]], whole: dict[Job, list[float]], play: dict[Job, list[float]]) -> None:
    rows = []

    def compare(what: str, over: list[float], under: list[float], wanted: str = "") -> None:
        values = ratios(over, under)
        rows.append([what, spread(values), wanted, met(wanted, values) if wanted else ""])

    compare("a task of ours, unchanged ÷ raw `/bin/true`", item[SAME], item[RAW], "≤ 1.3")
    compare("a task of ours, unchanged ÷ `ping`, pipelined", item[SAME], item[PING_PIPELINED], "≤ 1")
    patient = [seconds + CHANGE.waits for seconds in whole[CHANGE]]
    for baseline, same, change in (("baseline", BASE_SAME, BASE_CHANGE), ("baseline pipelined", PIPELINED_SAME, PIPELINED_CHANGE)):
        compare(f"playbook, unchanged: {baseline} ÷ ours", whole[same], whole[SAME], "≥ 3")
        compare(f"playbook, change: {baseline} ÷ ours", whole[change], whole[CHANGE], "≥ 2.5")
        compare(f"playbook, change, stable window left in: {baseline} ÷ ours", whole[change], patient)
        compare(f"play alone, unchanged: {baseline} ÷ ours", play[same], play[SAME])
        compare(f"play alone, change: {baseline} ÷ ours", play[change], play[CHANGE])
    table("Ratios", ["ratio", "median (lowest–highest)", "target", "met"], rows)


def print_costs(loops: dict[Job, list[Cost]], playbooks: dict[Job, list[Cost]]) -> None:
    item = {job: [cost.item for cost in costs] for job, costs in loops.items()}
    whole = {job: [cost.whole - job.waits for cost in costs] for job, costs in playbooks.items()}
    play = {job: [cost.play - job.waits for cost in costs] for job, costs in playbooks.items()}
    print_ratios(item, whole, play)
    table(
        "A task in a loop",
        ["task", "times raw", "here, ms"],
        [[job.name, spread(ratios(item[job], item[RAW])), f"{median(item[job]) * 1000:.0f}"] for job in LOOPS],
    )
    table(
        "A playbook",
        ["playbook", "times raw", "here, s", "play alone, times raw", "here, s"],
        [
            [
                job.name + (f", {job.waits:g} s taken off" if job.waits else ""),
                spread(ratios(whole[job], whole[RAW])),
                f"{median(whole[job]):.2f}",
                spread(ratios(play[job], play[RAW])),
                f"{median(play[job]):.2f}",
            ]
            for job in PLAYBOOKS
        ],
    )


def print_bytes(bench: Bench) -> None:
    progress("counting bytes")
    columns = [(SAME, CHANGE), (BASE_SAME, BASE_CHANGE), (PIPELINED_SAME, PIPELINED_CHANGE)]
    testhost("exec", HOST, "rm", "-rf", BINARY_CACHE)
    rows = []
    for title, options, changes in (
        ("first contact, unchanged", [], False),
        ("second call, unchanged", [], False),
        ("check mode, the host lacks the candidate", ["--check"], True),
        ("change", [], True),
    ):
        counts = [bench.payload(change if changes else same, *options) for same, change in columns]
        rows.append([title, *(f"{there / 1000:.1f} / {back / 1000:.1f}" for there, back in counts)])
    table("kB to the host / back", ["run", "lastgood", "baseline", "baseline pipelined"], rows)


def print_machine(bench: Bench) -> None:
    ansible = re.search(r"core ([\d.]+)", run("ansible", "--version"))[1]
    binary = (ROOT / "bin/lastgood").stat().st_size
    print(
        f"ansible-core {ansible}, Python {platform.python_version()}, systemd {SYSTEMD}, {platform.machine()}, {os.cpu_count()} CPUs; "
        f"the module's binary has {binary / 1e6:.1f} MB, a candidate {bench.candidate_size / 1e6:.1f} MB; {ROUNDS} rounds, {ITEMS} items a loop."
    )


def main() -> None:
    # So that the host is stopped then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    # Hosts of this run alone: others on this machine stay.
    os.environ["LASTGOOD_RUN"] = f"/run/lastgood-bench-{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory(prefix="bench") as scratch:
            bench = Bench(Path(scratch))
            costs = measure_costs(bench)
            print_machine(bench)
            print_costs(*costs)
            print_bytes(bench)
    finally:
        testhost("stop", "--all")


main()
