"""The JIT config: registration and start-up configuration of exactly one runner.

Looks like the real one: base64 of a JSON object whose three values are the base64 of the
files `.runner`, `.credentials` and `.credentials_rsaparams` (contract C2 2.12, Annex A). The
secret sits where the real one has its private key. What a runner does with it is in
`runner_sessions.py`.
"""

import base64
import json

from runnerscale.fake_github.model import Runner


def encode_jit_config(runner: Runner, *, server_url: str, github_url: str, work_folder: str) -> str:
    """The text that the runner gets in `ACTIONS_RUNNER_INPUT_JITCONFIG`."""
    files: dict[str, dict[str, object]] = {
        ".runner": {
            "agentId": runner.id,
            "agentName": runner.name,
            "poolId": 1,
            "poolName": "Default",
            "disableUpdate": "true",
            "ephemeral": "true",
            "serverUrl": server_url,
            "gitHubUrl": github_url,
            "workFolder": work_folder or "_work",
            "useV2Flow": "true",
        },
        ".credentials": {
            "scheme": "FakeGitHub",
            "data": {"clientId": str(runner.id), "authorizationUrl": server_url},
        },
        ".credentials_rsaparams": {"d": runner.secret},
    }
    encoded = {name: _base64(json.dumps(value)) for name, value in files.items()}
    return _base64(json.dumps(encoded))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
