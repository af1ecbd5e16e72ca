# SPDX-License-Identifier: Apache-2.0
"""One run from an undisturbed bundle through the trouble to the verdict."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch

from bundle.progress import say
from chaos import ending, probe
from chaos.bundle_project import Bundle, BundleError, wait_until
from chaos.container_logs import errors, treated
from chaos.documents import Readings, honest
from chaos.faults import ACTIONS, GROUPS
from chaos.faults.field import NotNow
from chaos.honest_requests import RequestClient, read_undisturbed
from chaos.http_client import Away, ask
from chaos.jobs import FORMATS, JOBS, JobClient, submit
from chaos.journal import Journal, Span
from chaos.judge import causes, judge_pages, judge_refusal, of_answer
from chaos.outcome import Limits, Outcome, shows_nothing
from chaos.plan import Length, Step, steps
from chaos.resources import Usage, measured
from chaos.strangers import Hostile, Leavers

Groups = Mapping[str, Mapping[str, Length]]
ROUNDS = 2
BEFORE_MEASURING_S = 10


def ready(url: str) -> bool:
    try:
        return ask(url, "GET", "/health/ready", timeout=15).status == 200
    except Away:
        return False


def perform(bundle: Bundle, step: Step, journal: Journal, ready_s: float, wait: bool) -> None:
    """One action; with `wait`, until the bundle is ready again, which must come within `ready_s`."""
    action = ACTIONS[step.action]
    begin, target, failed = journal.now(), "", ""
    try:
        with action.begin(bundle, step) as target:
            journal.note("begin", number=step.number, action=step.action, target=target, seconds=step.seconds)
            time.sleep(step.seconds)
    except (NotNow, BundleError, OSError, subprocess.SubprocessError) as error:
        # The engine may be too busy to freeze a container, or the process has just ended: the report says so.
        failed = str(error) or type(error).__name__
    end = journal.now()
    back = None
    if wait and not failed:
        if wait_until(lambda: ready(bundle.url), ready_s):
            back = journal.now() - end
        else:
            journal.violation("not ready", f"{ready_s:.0f} s after the end of {step.action} ({target})")
    journal.span(Span(step.number, step.action, target, begin, end, action.marks, back, failed))
    say(f"{end:7.1f} s  {step.action}: {failed or target}{f', ready in {back:.0f} s' if back is not None else ''}")


def trouble(bundle: Bundle, plan: Iterator[Step], seconds: float, journal: Journal, ready_s: float) -> None:
    """Actions of the plan until the time is over."""
    end = journal.now() + seconds
    step = next(plan)
    while journal.now() < end:
        time.sleep(step.gap_s)
        following = next(plan)
        perform(bundle, step, journal, ready_s, following.calm)
        step = following


def heal(bundle: Bundle) -> None:
    """What an action may have left: the actions end their own trouble, and a second time does no harm."""
    bundle.jump(0)
    bundle.treat("pass", 0)
    for service in ("vlm", "parser", "proxy"):
        bundle.docker("unpause", bundle.container(service), check=False)
        bundle.docker("start", bundle.container(service), check=False)
        # The parser has a second network; what is connected already is refused.
        if service != "parser":
            words = ("network", "connect", "--alias", service, bundle.network(), bundle.container(service))
            bundle.docker(*words, check=False)


def read_before(bundle: Bundle, journal: Journal) -> tuple[Readings, dict[str, Usage]]:
    """The undisturbed reading, and what the bundle holds after it."""
    readings, url = Readings(), bundle.url
    try:
        read_undisturbed(url, honest(), readings, ROUNDS)
        document = honest()[0]
        answer = submit(url, document.name, document.path.read_bytes(), "chaos-before", "chaos-before")
    except (Away, ValueError) as error:
        raise BundleError(f"before any trouble: {error}") from None
    if answer.status != 200:
        raise BundleError(f"before any trouble a job is refused: {answer.status} {answer.body[:300]!r}")
    name = answer.json()["data"]["jobId"]
    ended = wait_until(lambda: job_state(url, name) in ("done", "failed"), 300)
    if not ended or job_state(url, name) != "done":
        raise BundleError(f"before any trouble a job is {job_state(url, name)}")
    for form in FORMATS:
        # Helpers that convert are started by their first work, and belong to what is measured.
        if (answer := ask(url, "GET", f"{JOBS}/{name}/result?format={form}")).status != 200:
            raise BundleError(
                f"before any trouble a result as {form} is refused: {answer.status} {answer.body[:300]!r}"
            )
    ending.purge(url, [name], journal)
    time.sleep(BEFORE_MEASURING_S)
    return readings, measured(bundle)


def job_state(url: str, name: str) -> str:
    return str(ask(url, "GET", f"{JOBS}/{name}").json()["data"]["state"])


def chosen(only: str, without: str) -> dict[str, dict[str, Length]]:
    """The groups of actions, with those whose names match a pattern, and without those that match the other one."""
    named = {
        group: {
            name: action.length
            for name, action in actions.items()
            if fnmatch(name, only) and not fnmatch(name, without)
        }
        for group, actions in GROUPS.items()
    }
    return {group: actions for group, actions in named.items() if actions}


def run(bundle: Bundle, seed: int, minutes: float, journal: Journal, limits: Limits, groups: Groups) -> Outcome:
    """The whole run on a bundle that is up. Violations are in the journal; raises BundleError where nothing can be
    shown, because the bundle does not even work undisturbed."""
    outcome = Outcome(load=(os.getloadavg()[0], 0.0))
    say("the undisturbed reading ...")
    readings, outcome.before = read_before(bundle, journal)
    outcome.roles = {service: sorted(bundle.roles(service)) for service in outcome.before}
    stop, quiet = threading.Event(), threading.Event()
    looking = probe.Probe(bundle.url, journal, quiet)
    clients = [JobClient(bundle.url, f"chaos-{n}", honest(), seed + n, journal, stop) for n in range(2)]
    asking = RequestClient(bundle.url, honest(), seed, journal, stop)
    hostile = Hostile(bundle.url, "chaos-hostile", seed, journal, stop)
    leavers = Leavers(bundle.url, honest(), clients[0], seed, journal, stop)
    began = journal.now()
    threads: list[threading.Thread] = [looking, *clients, asking, hostile, leavers]
    for thread in threads:
        thread.start()
    say(f"{minutes:g} minutes of trouble, seed {seed} ...")
    try:
        trouble(bundle, steps(seed, groups), minutes * 60, journal, limits.ready_s)
    finally:
        stop.set()
        heal(bundle)
    outcome.trouble_s = journal.now() - began
    outcome.load = (outcome.load[0], os.getloadavg()[0])
    say("the trouble is over; waiting for what was accepted ...")
    if not wait_until(lambda: ready(bundle.url), limits.ready_s):
        journal.violation("not ready", f"{limits.ready_s:.0f} s after the end of all trouble")
    for thread in threads[1:]:
        thread.join(900)
        if thread.is_alive():
            journal.violation("no answer after the trouble", f"client {thread.name} still waits for an answer")
    quiet.set()
    looking.join(60)
    jobs = [job for client in clients for job in client.jobs]
    finish(bundle, outcome, readings, clients, hostile, journal)
    outcome.looks, outcome.left, outcome.hostile = looking.looks, leavers.left, hostile.answers
    outcome.accepted, outcome.hostile_jobs = len(jobs), len(hostile.jobs)
    outcome.submitted = sum((Counter(client.answers) for client in clients), Counter())
    outcome.asked = Counter(asking.answers)
    for served in asking.served:
        marks = causes(journal.spans, served.begin_s, served.end_s)
        what = f"{served.document.name} at {served.begin_s:.0f} s"
        judge_pages(served.document, of_answer(served.result), readings, marks, what, outcome.requests)
        troubled = any(span.meets(served.begin_s, served.end_s) for span in journal.spans)
        outcome.latencies.append((served.end_s - served.begin_s, served.document.pages, troubled))
    for no in asking.refused:
        marks = causes(journal.spans, no.begin_s, no.end_s)
        judge_refusal(no.status, no.words, marks, f"{no.document.name} at {no.begin_s:.0f} s", outcome.requests)
    for verdict in (outcome.jobs, outcome.requests):
        for kind, words in verdict.violations:
            journal.violation(kind, words)
    for kind, words in probe.judge(outcome.looks, journal.spans, limits.health_s, limits.back_s, journal.now()):
        journal.violation(kind, words)
    outcome.treated, outcome.errors = treated(bundle), errors(bundle)
    outcome.after = ending.settle(bundle, outcome.before, journal, limits.tolerance)
    for words in shows_nothing(outcome, journal.spans):
        journal.violation("the run shows too little", words)
    return outcome


def finish(
    bundle: Bundle,
    outcome: Outcome,
    readings: Readings,
    clients: Sequence[JobClient],
    hostile: Hostile,
    journal: Journal,
) -> None:
    """Jobs are waited for, judged, tried again where they say so, compared with the server's list, and purged."""
    url, jobs = bundle.url, [job for client in clients for job in client.jobs]
    for client in clients:
        if client.unknown:
            journal.violation("no answer after the trouble", f"submission {client.unknown} was never answered")
    ending.wait_for_jobs(url, [*jobs, *hostile.jobs], journal)
    for job in hostile.jobs:
        if job.state.get("state") == "lost":
            journal.violation("job lost", f"{job.id} (hostile), accepted at {job.accepted_s:.0f} s: 404")
    outcome.jobs = ending.judge_jobs(url, jobs, readings, journal)
    outcome.retried = ending.retry_failed(url, jobs, readings, journal)
    listed = [name for client in clients for name in ending.compare_batch(url, client.batch, client.jobs, journal)]
    # A hostile submission that nobody waited for may have been accepted: its client would not know.
    unknown = ending.persistent(url, "GET", f"{JOBS}/batch/{hostile.batch}", journal)
    if unknown is not None and unknown.status == 200:
        listed += [entry["jobId"] for entry in unknown.json()["data"]["extractResult"]]
    ending.purge(url, sorted({*listed, *(job.id for job in [*jobs, *hostile.jobs])}), journal)
    again = Readings()
    try:
        # The same pages as before, so that memory is measured after the same work; and they must read the same.
        read_undisturbed(url, honest(), again, ROUNDS)
    except (Away, ValueError) as error:
        journal.violation("no answer after the trouble", str(error))
    for name, pages in again.variants.items():
        for number, variants in enumerate(pages):
            if new := variants - readings.variants[name][number]:
                journal.violation("text differs", f"after the trouble, {name}, page {number + 1}: {str(new)[:300]}")
