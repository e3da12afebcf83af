"""The commands for people, on cyclopts: `demo`, `crds`, `rights`, and the single parts.

Each reads its options and hands them to `app/`; imports are inside the commands, so that `crds`
does not pay for the demo. Usage errors are one sentence and exit code 2.
"""

import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from runnerscale import __version__
from runnerscale.app.problem import Problem, UsageProblem

if TYPE_CHECKING:
    from runnerscale.app.demo import DemoOptions

if find_spec("cyclopts") is None:  # the image of controller and listener does without
    raise Problem(
        "the commands for people need the extra [cli]", "Install it: pip install 'runnerscale[cli]'"
    )

from cyclopts import (
    App,
    CycloptsError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
    validators,
)

Flag = Parameter(negative="", show_default=False)
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]
app = App(
    name="runnerscale",
    version=__version__,
    help="Queued GitHub Actions jobs become ephemeral runners, one fresh runner per job.\n\n"
    "Begin with: runnerscale demo. Every command takes --debug, which shows errors with traceback.",
)


@app.command
def demo(
    *,
    workflow: Path | None = None,
    jobs: int | None = None,
    job_seconds: float = 1.0,
    min_runners: Annotated[int, Parameter(name="--min")] = 0,
    max_runners: Annotated[int, Parameter(name="--max")] = 10,
    fault: Annotated[tuple[str, ...], Flag] = (),
    keep: Annotated[bool, Flag] = False,
    seed: int | None = None,
) -> int:
    """Run real jobs through the whole system on this machine, then sum up.

    Parameters
    ----------
    workflow
        A workflow file whose jobs are run (default: the example that comes with the project);
        steps with `run` only, docs/fake-github.md lists the keys.
    jobs
        Run so many equal jobs instead of a workflow.
    job_seconds
        How long each of those jobs takes, in seconds.
    min_runners
        Idle runners kept ready, besides those with a job.
    max_runners
        Never more runners than this.
    fault
        NAME@SECONDS: break something so long after the jobs were queued; NAME@xN: at N random
        instants while jobs run. May be given several times; `--fault list` tells the names. Give
        it enough --jobs that some are left while the trouble lasts.
    keep
        Leave everything running at the end until Ctrl-C; prints KUBECONFIG, GitHub's and metrics
        addresses.
    seed
        A number; the same one repeats the random instants of NAME@xN.
    """
    from runnerscale.app.demo import DemoOptions
    from runnerscale.app.demo_faults import fault_lines, parse_faults

    if "list" in fault:
        print("\n".join(fault_lines()))
        return 0
    options = DemoOptions(
        workflow=workflow,
        jobs=jobs,
        job_seconds=job_seconds,
        min_runners=min_runners,
        max_runners=max_runners,
        faults=parse_faults(fault),
        keep=keep,
        seed=seed,
    )
    return _show_demo(options.checked())


@app.command
def crds(*, output: Path | None = None) -> int:
    """Print the custom resource definitions, ready for `kubectl apply -f -`.

    Parameters
    ----------
    output
        A folder to write one file for each kind into, instead of printing.
    """
    from runnerscale.api.crds import crd_documents, file_name, render_yaml

    files = {file_name(document): render_yaml(document) for document in crd_documents()}
    if output is None:
        print("---\n".join(files.values()), end="")
        return 0
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (output / name).write_text(text)
    except OSError as error:
        raise Problem(
            f"the folder {output} cannot be written: {error.strerror}", "Choose another --output"
        ) from error
    return 0


@app.command
def rights(*, namespace: str) -> int:
    """Print namespaces, accounts and rights for runner sets on a single machine, as YAML.

    What `runnerscale controller` and `runnerscale node` need on the embedded API before they can
    work, ready for `kubectl apply -f -` (docs/single-machine.md). On a cluster the charts make it.

    Parameters
    ----------
    namespace
        Where the runner sets will be; once more with another one adds that one.
    """
    from runnerscale.app.rights import rights_yaml

    print(rights_yaml(namespace), end="")
    return 0


@app.command(name="fake-github")
def fake_github(
    *,
    port: Port = 8480,
    hold_seconds: float = 50.0,
    session_seconds: float = 60.0,
    acquire: Annotated[bool, Flag] = False,
    certificate: Path | None = None,
    key: Path | None = None,
    token_file: Path | None = None,
) -> int:
    """Run the stand-in for GitHub alone, on loopback, until Ctrl-C (docs/fake-github.md).

    Parameters
    ----------
    port
        Where it listens; 0 picks a free one.
    hold_seconds
        How long a poll of the message queue waits for a message.
    session_seconds
        How long a listener's session lives after its last poll or refresh.
    acquire
        Jobs are offered and must be acquired, as older GitHub Enterprise Server does.
    certificate
        PEM file; with it and `--key` the server speaks HTTPS.
    key
        PEM file of the certificate's private key.
    token_file
        A file of the personal access tokens that are let in, one a line; without it, any is.
    """
    from runnerscale.app.fake_github import run_fake_github_process

    return run_fake_github_process(
        port=port,
        hold_s=hold_seconds,
        session_s=session_seconds,
        acquire=acquire,
        certificate=certificate,
        key=key,
        tokens=token_file,
    )


@app.command(name="api-server")
def api_server(*, data: Path, port: Port = 6443) -> int:
    """Run the embedded Kubernetes API alone, on loopback, until Ctrl-C.

    Parameters
    ----------
    data
        Folder of its database, certificates and kubeconfig files; made if missing.
    port
        Where it listens; 0 picks a free one.
    """
    from runnerscale.app.api_server import run_api_server_process

    return run_api_server_process(data=data, port=port)


@app.command
def node(
    *,
    data: Path,
    kubeconfig: Path,
    token_file: Path,
    name: str = "single-machine",
    port: Port = 0,
    pods_max: int = 500,
    stop_pods: Annotated[bool, Flag] = False,
    config: Path | None = None,
) -> int:
    """Run the node agent alone: pods of one API server as processes of this machine.

    Parameters
    ----------
    data
        Folder for the pods' files and logs; made if missing.
    kubeconfig
        How to reach the API server, as the node agent's own identity.
    token_file
        Holds the token that the API server shows when it asks for logs.
    name
        Of the node.
    port
        Of logs, health and metrics; 0 picks a free one.
    pods_max
        How many pods may run at once.
    stop_pods
        End the pods with the agent, instead of leaving them for the next start.
    config
        A YAML file of images and limits (src/runnerscale/node/config.py lists the keys): which
        image runs which command, beside those of the demo.
    """
    from runnerscale.app.node import run_node_process

    return run_node_process(
        data=data,
        kubeconfig=kubeconfig,
        token_file=token_file,
        name=name,
        port=port,
        pods_max=pods_max,
        stop_pods=stop_pods,
        config=config,
    )


app.command(
    "runnerscale.cli.values_command:values",
    name="values",
    help="Look at values files of the charts: runnerscale values check FILE.",
)


app.command(
    "runnerscale.cli.migrate_command:migrate",
    name="migrate",
    help="From ARC's controller to this one: runnerscale migrate check.",
)


@app.command
def version() -> int:
    """Print the version, and the version of ARC that this one stands in for."""
    from runnerscale.app.versions import COMPATIBLE_VERSION

    print(f"runnerscale {__version__} (compatible with ARC {COMPATIBLE_VERSION})")
    return 0


def _show_demo(options: "DemoOptions") -> int:
    from runnerscale.app.demo import run_demo
    from runnerscale.app.demo_state import summary_lines
    from runnerscale.cli.demo_view import make_view

    view = make_view()
    try:
        summary = run_demo(options, view)
    finally:
        view.close()
    print("\n".join(summary_lines(summary)))
    return 0 if summary.went_well else 1


@app.command
def controller() -> int:
    """Reconcile the four kinds; ARC's flags (`runnerscale controller --help`)."""
    raise AssertionError("cli/main.py takes this command before cyclopts does")


@app.command
def listener() -> int:
    """Listen to one scale set's queue; ARC's configuration file (`LISTENER_CONFIG_PATH`)."""
    raise AssertionError("cli/main.py takes this command before cyclopts does")


def run_people(words: Sequence[str]) -> int:
    """Carry out a command line for people; returns the exit code.

    Raises:
        UsageProblem: no such command, option or value.
    """
    asked = ["--help"] if list(words) == ["help"] else list(words)
    try:
        result = app(asked, exit_on_error=False, print_error=False, result_action="return_value")
    except UnknownCommandError as error:
        raise UsageProblem(_one_clause(error), "Run 'runnerscale --help' for all") from error
    except UnusedCliTokensError as error:
        odd = " ".join(error.unused_tokens or ())
        text = f"runnerscale {words[0]} takes options only, not {odd!r}"
        raise UsageProblem(text, f"Run 'runnerscale {words[0]} --help' for them") from error
    except CycloptsError as error:
        command = f"runnerscale {words[0]}" if words else "runnerscale"
        see = f"Run '{command} --help' for what it takes"
        raise UsageProblem(_one_clause(error), see) from error
    return result if isinstance(result, int) else 0


def _one_clause(error: CycloptsError) -> str:
    """What cyclopts found wrong, as a clause: a Problem adds the stop."""
    text, _, _ = str(error).strip().partition(" Available commands:")
    return re.sub(r"\.? Did you mean (.*)\?$", r" (did you mean \1?)", text).rstrip(".")


__all__ = ["app", "run_people"]

if __name__ == "__main__":
    sys.exit(run_people(sys.argv[1:]))
