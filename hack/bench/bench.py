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
from dataclasses import dataclass, replace
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
    check: bool = False
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
PIPELINED_SAME = replace(BASE_SAME, name="baseline pipelined, unchanged", pipelining=True)
PIPELINED_CHANGE = replace(BASE_CHANGE, name="baseline pipelined, change", pipelining=True)

LOOPS = [RAW, PING_PIPELINED, PING, INFO, SAME]
PLAYBOOKS = [*LOOPS, BASE_SAME, PIPELINED_SAME, CHANGE, BASE_CHANGE, PIPELINED_CHANGE]


@dataclass(frozen=True)
class Stamp:
    """What the callback wrote: a play began, an item was done, or all ended."""

    event: str
    at: float
    changed: int = 0


@dataclass(frozen=True)
class Candidate:
    path: Path
    sha256: str


def run(*command: object, env: dict[str, str] | None = None) -> str:
    """Returns what a command printed, and ends the benchmark if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
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
        return {
            "path": self.path,
            "unit": self.name,
            "health_port": self.port,
            "src": str(wanted.path),
            "sha256": wanted.sha256,
        }

    def upgraded(self) -> None:
        self.candidates = [*self.candidates[1:], self.candidates[0]]


class Bench:
    """A host with two services, and Ansible to measure on it."""

    def __init__(self, scratch: Path):
        self.stamps = scratch / "stamps"
        self.playbook = scratch / "playbook.yml"
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
            self.run(job)

    def run(self, job: Job, plays: int = 1, items: int = 1) -> list[Stamp]:
        """Runs a job's playbook once, with its play and the loop in it repeated."""
        self.write_playbook(job, plays, items)
        self.stamps.write_text("")
        env = self.env if job.pipelining is None else self.env | {"ANSIBLE_PIPELINING": str(job.pipelining)}
        printed = run("ansible-playbook", *(["--check"] if job.check else []), self.playbook, env=env)
        stamps = [Stamp(**json.loads(line)) for line in self.stamps.read_text().splitlines()]
        changed = stamps[-1].changed
        if changed < plays if job.changed else changed > 0:
            sys.exit(f"bench: '{job.name}' did not do what was to be measured:\n{printed}")
        return stamps

    def write_playbook(self, job: Job, plays: int, items: int) -> None:
        service = self.services[job.service]
        book = []
        for _play in range(plays):
            variables = service.variables(job.upgrade) | {"times": items}
            book.append({"import_playbook": str(BENCH / job.playbook), "vars": variables})
            if job.upgrade and not job.check:
                service.upgraded()
        self.playbook.write_text(json.dumps(book))

    def item(self, job: Job) -> float:
        """Seconds that one more item of a loop takes."""
        done = [stamp.at for stamp in self.run(job, items=ITEMS) if stamp.event == "item"]
        return (done[-1] - done[0]) / (len(done) - 1)

    def playbook_and_play(self, job: Job) -> tuple[float, float]:
        """Seconds that a playbook takes, and those that one more play in it takes, without what it waits by design."""
        start = time.monotonic()
        stamps = self.run(job, plays=2)
        whole = time.monotonic() - start
        second = [stamp.at for stamp in stamps if stamp.event == "play"][1]
        play = stamps[-1].at - second
        return whole - play - job.waits, play - job.waits

    def payload(self, job: Job) -> tuple[int, int]:
        """Runs a job and returns the bytes that its connection carried to the host and back."""
        before = connection()
        self.run(job)
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


def met(wanted: str, values: list[float]) -> str:
    relation, limit = wanted.split()
    reached = median(values) <= float(limit) if relation == "≤" else median(values) >= float(limit)
    return "yes" if reached else "no"


def print_times(bench: Bench) -> None:
    item: dict[Job, list[float]] = {job: [] for job in LOOPS}
    whole: dict[Job, list[float]] = {job: [] for job in PLAYBOOKS}
    play: dict[Job, list[float]] = {job: [] for job in PLAYBOOKS}
    for number in range(ROUNDS):
        progress(f"round {number + 1} of {ROUNDS}")
        for job in LOOPS:
            item[job].append(bench.item(job))
        for job in PLAYBOOKS:
            seconds = bench.playbook_and_play(job)
            whole[job].append(seconds[0])
            play[job].append(seconds[1])
    print_ratios(item, whole, play)
    print_tasks(item)
    print_playbooks(whole, play)


def print_ratios(item: dict[Job, list[float]], whole: dict[Job, list[float]], play: dict[Job, list[float]]) -> None:
    rows = []

    def compare(what: str, over: list[float], under: list[float], wanted: str = "") -> None:
        values = ratios(over, under)
        rows.append([what, spread(values), wanted, met(wanted, values) if wanted else ""])

    compare("task, unchanged: ours ÷ raw `/bin/true`", item[SAME], item[RAW], "≤ 1.3")
    compare("task, unchanged: ours ÷ `ping`, pipelined", item[SAME], item[PING_PIPELINED], "≤ 1")
    waited = [seconds + CHANGE.waits for seconds in whole[CHANGE]]
    for baseline, same, change in (
        ("baseline", BASE_SAME, BASE_CHANGE),
        ("baseline pipelined", PIPELINED_SAME, PIPELINED_CHANGE),
    ):
        compare(f"playbook, unchanged: {baseline} ÷ ours", whole[same], whole[SAME], "≥ 3")
        compare(f"playbook, change: {baseline} ÷ ours", whole[change], whole[CHANGE], "≥ 2.5")
        compare(f"playbook, change, stable window left in: {baseline} ÷ ours", whole[change], waited)
        compare(f"one more play, unchanged: {baseline} ÷ ours", play[same], play[SAME])
        compare(f"one more play, change: {baseline} ÷ ours", play[change], play[CHANGE])
    table("Ratios", ["ratio", "median (lowest–highest)", "target", "met"], rows)


def print_tasks(item: dict[Job, list[float]]) -> None:
    rows = [[job.name, spread(ratios(item[job], item[RAW])), f"{median(item[job]) * 1000:.0f}"] for job in LOOPS]
    table("A task in a loop", ["task", "times raw", "here, ms"], rows)


def print_playbooks(whole: dict[Job, list[float]], play: dict[Job, list[float]]) -> None:
    rows = []
    for job in PLAYBOOKS:
        row = [job.name + (f", {job.waits:g} s taken off" if job.waits else "")]
        for seconds in (whole, play):
            row += [spread(ratios(seconds[job], seconds[RAW])), f"{median(seconds[job]):.2f}"]
        rows.append(row)
    table("A playbook", ["playbook", "times raw", "here, s", "one more play, times raw", "here, s"], rows)


def print_bytes(bench: Bench) -> None:
    progress("counting bytes")
    testhost("exec", HOST, "rm", "-rf", BINARY_CACHE)
    same = [SAME, BASE_SAME, PIPELINED_SAME]
    change = [CHANGE, BASE_CHANGE, PIPELINED_CHANGE]
    rows = []
    for title, jobs in (
        ("first contact, unchanged", same),
        ("second call, unchanged", same),
        ("check mode, the host lacks the candidate", [replace(job, check=True) for job in change]),
        ("change", change),
    ):
        counts = [bench.payload(job) for job in jobs]
        rows.append([title, *(f"{there / 1000:.1f} / {back / 1000:.1f}" for there, back in counts)])
    table("kB to the host / back", ["run", "lastgood", "baseline", "baseline pipelined"], rows)


def print_machine(bench: Bench) -> None:
    ansible = re.search(r"core ([\d.]+)", run("ansible", "--version"))[1]
    binary = (ROOT / "bin/lastgood").stat().st_size
    print(
        f"ansible-core {ansible}, Python {platform.python_version()}, systemd {SYSTEMD}, {platform.machine()}, "
        f"{os.cpu_count()} CPUs with a load of {os.getloadavg()[0]:.1f} before; "
        f"the module's binary has {binary / 1e6:.1f} MB, a candidate {bench.candidate_size / 1e6:.1f} MB; "
        f"{ROUNDS} rounds, {ITEMS} items a loop."
    )


def main() -> None:
    # So that the host is stopped then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: terminated"))
    # Hosts of this run alone: others on this machine stay.
    os.environ["LASTGOOD_RUN"] = f"/run/lastgood-bench-{os.getpid()}"
    try:
        with tempfile.TemporaryDirectory(prefix="bench") as scratch:
            bench = Bench(Path(scratch))
            print_machine(bench)
            print_times(bench)
            print_bytes(bench)
    finally:
        testhost("stop", "--all")


main()
