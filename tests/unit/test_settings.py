"""Settings come by flag or by environment; what is wrong is told in one line before anything is touched."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import controller
from controller.__main__ import main
from controller.facts import HOST_LABELS, Policy
from controller.profiles import built_in
from controller.settings import PREFIX, Settings, load

URL = "http://192.168.1.40:9090"
NAMES = sorted(Settings.model_fields)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [*os.environ]:
        if variable.upper().startswith(PREFIX):
            monkeypatch.delenv(variable)


def loaded(flags: dict[str, str]) -> dict[str, object]:
    return load({name: flags.get(name) for name in NAMES}).model_dump(mode="json")


DEFAULTS: dict[str, object] = {
    "prometheus_url": [f"{URL}/"],
    "targets_url": [],
    "query_url": [],
    "health_from": "auto",
    "prometheus_username": "",
    "prometheus_password": None,
    "prometheus_password_file": "",
    "prometheus_token_file": "",
    "prometheus_ca_file": "",
    "prometheus_cert_file": "",
    "prometheus_key_file": "",
    "prometheus_headers": {},
    "prometheus_insecure": False,
    "prometheus_proxy": False,
    "poll_seconds": 5,
    "telemetry_seconds": 30,
    "target_ports": [9182, 9183],
    "host_labels": [*HOST_LABELS],
    "target_missing_seconds": 60,
    "valid_for_seconds": 180,
    "profiles_file": None,
    "listen": "127.0.0.1:8080",
    "serve_topology": True,
    "log_format": "text",
}
OTHERS = [
    ("prometheus_url", "https://prometheus.lab/p", ["https://prometheus.lab/p"]),
    ("prometheus_url", "http://a, http://b:1/c,d", ["http://a/", "http://b:1/c,d"]),
    ("targets_url", "http://a,http://b", ["http://a/", "http://b/"]),
    ("query_url", "http://a", ["http://a/"]),
    ("health_from", "up", "up"),
    ("prometheus_headers", '{"X-Scope-OrgID": "lab"}', {"X-Scope-OrgID": "lab"}),
    ("prometheus_insecure", "true", True),
    ("prometheus_proxy", "true", True),
    ("poll_seconds", "0.2", 0.2),
    ("telemetry_seconds", "0", 0),
    ("target_ports", "9100, 9400", [9100, 9400]),
    ("target_ports", "9400", [9400]),
    ("host_labels", "machine, __meta_kubernetes_node_name", ["machine", "__meta_kubernetes_node_name"]),
    ("target_missing_seconds", "3600", 3600),
    ("valid_for_seconds", "600", 600),
    ("listen", "[::]:0", "[::]:0"),
    ("listen", "", ""),
    ("serve_topology", "no", False),
    ("log_format", "json", "json"),
]


def test_every_setting_but_one_has_a_default() -> None:
    assert loaded({"prometheus_url": URL}) == DEFAULTS


@pytest.mark.parametrize(("name", "text", "value"), OTHERS)
def test_a_flag_changes_one_setting(name: str, text: str, value: object) -> None:
    assert loaded({"prometheus_url": URL, name: text}) == DEFAULTS | {name: value}


@pytest.mark.parametrize(("name", "text", "value"), OTHERS)
def test_a_variable_changes_one_setting(name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}PROMETHEUS_URL", URL)
    monkeypatch.setenv(PREFIX + name.upper(), text)
    assert loaded({}) == DEFAULTS | {name: value}


@pytest.mark.parametrize("elsewhere", ["http://elsewhere:9090", "nonsense", ""])
@pytest.mark.parametrize(("name", "text", "value"), OTHERS)
def test_a_flag_wins_over_a_variable_however_wrong(
    name: str, text: str, value: object, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX + name.upper(), elsewhere)
    assert loaded({"prometheus_url": URL, name: text}) == DEFAULTS | {name: value}


@pytest.mark.parametrize(
    ("url", "base"),
    [
        pytest.param("http://prometheus:9090", "http://prometheus:9090", id="as it stands"),
        pytest.param("http://prometheus:9090//", "http://prometheus:9090", id="without final slashes"),
        pytest.param("http://prometheus/a/b/", "http://prometheus/a/b", id="with its path"),
        pytest.param("HTTP://Prometheus:80", "http://prometheus", id="in one spelling"),
        pytest.param("http://[FD00:0::1]:9090", "http://[fd00::1]:9090", id="by IPv6"),
        pytest.param("http://u:p@h:9090/", "http://u:p@h:9090", id="with its credentials, which requests need"),
    ],
)
def test_the_base_url(url: str, base: str) -> None:
    assert load({"prometheus_url": url}).source.query == (base,)


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:8080", ("127.0.0.1", 8080)), ("[::1]:80", ("::1", 80)), ("", None)],
    ids=["a host and a port", "an IPv6 address and a port", "nowhere"],
)
def test_where_to_listen(listen: str, address: tuple[str, int] | None) -> None:
    assert load({"prometheus_url": URL, "listen": listen}).listen_address == address


def test_rules_get_their_part() -> None:
    flags = {"target_ports": "1", "host_labels": "l", "target_missing_seconds": "2", "telemetry_seconds": "3"}
    chosen = load({"prometheus_url": URL, **flags})
    assert chosen.policy == Policy(
        profiles=built_in(), target_ports=(1,), host_labels=("l",), target_missing_seconds=2, telemetry_seconds=3
    )


NO_NUMBER = "Input should be a valid number, unable to parse string as a number"
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"
BAD = [
    ("prometheus_url", "", "Input should be a valid URL, input is empty, but it is ''"),
    ("prometheus_url", "prometheus:9090", "URL scheme should be 'http' or 'https', but it is 'prometheus:9090'"),
    ("prometheus_url", "http://", "Input should be a valid URL, empty host, but it is 'http://'"),
    ("prometheus_url", "http://h:99999", "Input should be a valid URL, invalid port number, but it is 'http://h:99999'"),
    ("prometheus_url", "http://h/\x1b[1m\n:x" * 9999, "URL should have at most 2083 characters, but it is '"
     + ("http://h/[1m :x" * 9)[:99] + "…'"),
    ("prometheus_url", "http://reader:s3cret@h:99999", "Input should be a valid URL, invalid port number"),
    ("prometheus_url", "ftp://reader:s3cret@h", "URL scheme should be 'http' or 'https'"),
    ("prometheus_url", "http://reader:s3/cr@et@h:x", "Input should be a valid URL, invalid port number"),
    ("prometheus_url", "http://h/?token=s3cret", "URL should end with its path, without ? or #"),
    ("prometheus_url", "http://h/#part", "URL should end with its path, without ? or #, but it is 'http://h/#part'"),
    ("listen", "8080", "Address should be host:port, such as 127.0.0.1:8080, but it is '8080'"),
    ("listen", "h:99999", "Address should be host:port, such as 127.0.0.1:8080, but it is 'h:99999'"),
    ("serve_topology", "maybe", "Input should be a valid boolean, unable to interpret input, but it is 'maybe'"),
    ("prometheus_url", "http://reader:s3,cr@et@h:x", "Input should be a valid URL, invalid port number"),
    ("prometheus_url", "http://a,http://reader:s3cret@h:x", "Input should be a valid URL, invalid port number"),
    ("targets_url", "h:9090", "URL scheme should be 'http' or 'https', but it is 'h:9090'"),
    ("query_url", "http://a,http://h/?token=s3cret", "URL should end with its path, without ? or #"),
    ("health_from", "UP", "Input should be 'auto', 'targets' or 'up', but it is 'UP'"),
    ("prometheus_username", "reader", "needs a password"),
    ("prometheus_username", "a:b", "should have no colon"),
    ("prometheus_password_file", "/nowhere", "is one password too many beside prometheus_password"),
    ("prometheus_token_file", "/nowhere", "/nowhere cannot be read: No such file or directory"),
    ("prometheus_ca_file", "/nowhere", "/nowhere cannot be read: No such file or directory"),
    ("prometheus_cert_file", "/nowhere", "needs its key"),
    ("prometheus_key_file", "/nowhere", "needs its certificate"),
    ("prometheus_headers", "", "Input should be a JSON object"),
    ("prometheus_headers", "[" * 9999, "Input should be a JSON object"),
    ("prometheus_headers", '["s3cret"]', "Input should be a valid dictionary"),
    ("prometheus_headers", '{"X": 1}', "Input should be a valid string"),
    ("prometheus_headers", '{"X-Key": "s3\\ncret"}', "names and values should be printable ASCII"),
    ("prometheus_headers", '{"X Key": "s3cret"}', "names and values should be printable ASCII"),
    ("prometheus_insecure", "maybe", "Input should be a valid boolean, unable to interpret input, but it is 'maybe'"),
    ("prometheus_proxy", "", "Input should be a valid boolean, unable to interpret input, but it is ''"),
    ("poll_seconds", "", f"{NO_NUMBER}, but it is ''"),
    ("poll_seconds", "5s", f"{NO_NUMBER}, but it is '5s'"),
    ("poll_seconds", "0.19", "Input should be greater than or equal to 0.2, but it is '0.19'"),
    ("poll_seconds", "301", "Input should be less than or equal to 300, but it is '301'"),
    ("poll_seconds", "nan", "Input should be less than or equal to 300, but it is 'nan'"),
    ("telemetry_seconds", "-1", "Input should be greater than or equal to 0, but it is '-1'"),
    ("telemetry_seconds", "inf", "Input should be less than or equal to 3600, but it is 'inf'"),
    ("target_ports", "", f"{NO_INTEGER}, but it is ''"),
    ("target_ports", "9182,,9183", f"{NO_INTEGER}, but it is ''"),
    ("target_ports", "9182 9183", f"{NO_INTEGER}, but it is '9182 9183'"),
    ("target_ports", "0", "Input should be greater than or equal to 1, but it is '0'"),
    ("target_ports", "9182,65536", "Input should be less than or equal to 65535, but it is '65536'"),
    ("host_labels", "node-name", "String should match pattern '^[A-Za-z_][A-Za-z0-9_]*$', but it is 'node-name'"),
    ("host_labels", "", "String should match pattern '^[A-Za-z_][A-Za-z0-9_]*$', but it is ''"),
    ("target_missing_seconds", "3601", "Input should be less than or equal to 3600, but it is '3601'"),
    ("valid_for_seconds", "2", "Input should be greater than or equal to 3, but it is '2'"),
    ("profiles_file", "nowhere.yaml", "nowhere.yaml: No such file or directory"),
    ("log_format", "JSON", "Input should be 'text' or 'json', but it is 'JSON'"),
]  # fmt: skip


COMPANY = {
    "prometheus_password_file": {"prometheus_username": "reader", "prometheus_password": "s3cret"},
}
"""What else is set beside a bad value, by variable."""


def complaint(name: str, fault: str) -> str:
    return f"gpu-topology: {PREFIX}{name.upper()} (--{name.replace('_', '-')}): {fault}\n"


@pytest.mark.parametrize("by_flag", [True, False], ids=["flag", "variable"])
@pytest.mark.parametrize(("name", "text", "fault"), BAD)
def test_a_bad_value_is_told_in_one_line(  # noqa: PLR0913, PLR0917 - the columns, and two fixtures
    name: str,
    text: str,
    fault: str,
    by_flag: bool,  # noqa: FBT001 - a column
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(f"{PREFIX}PROMETHEUS_URL", URL)
    for other, value in COMPANY.get(name, {}).items():
        monkeypatch.setenv(PREFIX + other.upper(), value)
    arguments = ["run"]
    if by_flag:
        arguments += [f"--{name.replace('_', '-')}={text}"]
    else:
        monkeypatch.setenv(PREFIX + name.upper(), text)
    assert (main(arguments), *capsys.readouterr()) == (2, "", complaint(name, fault))


def test_every_setting_can_be_bad() -> None:
    assert {name for name, _text, _fault in BAD} == {*NAMES} - {"prometheus_password"}


@pytest.mark.parametrize(
    ("variables", "setting", "fault"),
    [
        pytest.param({"prometheus_password": "s3cret"}, "prometheus_username", "is needed for the password",
                     id="a password without a name"),
        pytest.param({"prometheus_url": "http://u:s3cret@h", "prometheus_token_file": "/nowhere"},
                     "prometheus_token_file", "does not go with credentials by prometheus_url",
                     id="a token, and a password in the URL"),
        pytest.param({"prometheus_username": "u", "prometheus_password": "s3cret", "prometheus_token_file": "/nowhere"},
                     "prometheus_token_file", "does not go with credentials by prometheus_username",
                     id="a token and a password"),
        pytest.param({"prometheus_headers": '{"authorization": "s3cret"}', "prometheus_token_file": "/nowhere"},
                     "prometheus_token_file", "does not go with credentials by prometheus_headers",
                     id="a token and a header that is one"),
        pytest.param({"targets_url": "http://h", "query_url": "http://h", "health_from": "up"}, "targets_url",
                     "is not asked where health_from is up", id="a targets API that nobody asks"),
        pytest.param({"prometheus_url": None, "targets_url": "http://h"}, "prometheus_url", "is needed",
                     id="targets without series"),
        pytest.param({"prometheus_url": None, "query_url": "http://h"}, "prometheus_url", "is needed",
                     id="series without targets"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_told_in_one_line(
    variables: dict[str, str | None],
    setting: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in ({"prometheus_url": URL} | variables).items():
        if value is not None:
            monkeypatch.setenv(PREFIX + name.upper(), value)
    assert (main(["run"]), *capsys.readouterr()) == (2, "", complaint(setting, fault))


@pytest.mark.parametrize(
    ("flags", "targets", "query"),
    [
        pytest.param({"prometheus_url": "http://a"}, ("http://a",), ("http://a",), id="one URL for both"),
        pytest.param({"prometheus_url": "http://a,http://b,http://a/"}, ("http://a", "http://b"),
                     ("http://a", "http://b"), id="replicas, each once"),
        pytest.param({"prometheus_url": "http://a", "query_url": "http://q"}, ("http://a",), ("http://q",),
                     id="another one for queries"),
        pytest.param({"prometheus_url": "http://a", "targets_url": "http://t"}, ("http://t",), ("http://a",),
                     id="another one for targets"),
        pytest.param({"targets_url": "http://t", "query_url": "http://q"}, ("http://t",), ("http://q",),
                     id="one for each"),
        pytest.param({"query_url": "http://q", "health_from": "up"}, (), ("http://q",), id="queries alone"),
    ],
)  # fmt: skip
def test_health_and_readings_can_come_from_different_urls(
    flags: dict[str, str], targets: tuple[str, ...], query: tuple[str, ...]
) -> None:
    source = load(flags).source
    assert (source.targets, source.query) == (targets, query)


def test_no_secret_is_part_of_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}PROMETHEUS_PASSWORD", "s3cret")
    urls = {"targets_url": "http://t:s3cret@h", "query_url": "http://t:s3cret@h"}
    for flags in (
        {"prometheus_url": URL, "prometheus_username": "u", "prometheus_headers": '{"X-Key": "s3cret"}'},
        {"prometheus_url": "http://u:s3cret@h", **urls},
    ):
        if "prometheus_username" not in flags:
            monkeypatch.delenv(f"{PREFIX}PROMETHEUS_PASSWORD")
        settings = load(flags)
        assert "s3cret" in str([settings.source.access.password, *settings.source.query])
        assert "s3cret" not in f"{settings!r} {settings} {settings.source!r}"


@pytest.mark.parametrize("what", ["token_file", "password_file", "ca_file", "cert_file"])
def test_a_file_that_holds_something_else_is_told_before_anything_is_asked(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff s3cret")
    faults = {
        "token_file": f"{file} is no text",
        "password_file": f"{file} is no text",
        "ca_file": f"{file} holds no certificates that can be used: NO_CERTIFICATE_OR_CRL_FOUND",
        "cert_file": f"{file} and {file} are no certificate and its key: not PEM",
    }
    company = {"password_file": ["--prometheus-username=u"], "cert_file": [f"--prometheus-key-file={file}"]}
    code = main(["run", f"--prometheus-url={URL}", f"--prometheus-{what.replace('_', '-')}={file}",
                 *company.get(what, [])])  # fmt: skip
    assert (code, *capsys.readouterr()) == (2, "", complaint(f"prometheus_{what}", faults[what]))


def test_a_bad_setting_of_a_plan_is_told_before_its_files_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["plan", "-f", "nowhere.yaml", f"--prometheus={URL}", "--poll-seconds=x"])
    assert (code, *capsys.readouterr()) == (2, "", complaint("poll_seconds", f"{NO_NUMBER}, but it is 'x'"))


def test_without_a_url_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["run"]), *capsys.readouterr()) == (2, "", complaint("prometheus_url", "is needed"))


def test_of_several_bad_values_the_first_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "--log-format=xml", "--poll-seconds=x", f"--prometheus-url={URL}"])
    assert (code, *capsys.readouterr()) == (2, "", complaint("poll_seconds", f"{NO_NUMBER}, but it is 'x'"))


# ---- words


ONLY_RUN = {"--telemetry-seconds", "--valid-for-seconds", "--listen", "--serve-topology", "--log-format"}


def exit_of(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        pytest.param([], "the following arguments are required: COMMAND", id="no command"),
        pytest.param(["walk"], "argument COMMAND: invalid choice: 'walk' (choose from", id="an unknown command"),
        pytest.param(["run", "--pool-seconds=5"], "unrecognized arguments: --pool-seconds=5", id="an unknown flag"),
        pytest.param(["run", "http://h"], "unrecognized arguments: http://h", id="a word too many"),
        pytest.param(["run", "--poll-seconds"], "argument --poll-seconds: expected one argument", id="a flag alone"),
    ],
)
def test_a_wrong_word_is_told(arguments: list[str], fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of(arguments) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert f"error: {fault}" in told.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        pytest.param("run", set(), id="run"),
        pytest.param("plan", ONLY_RUN, id="plan"),
        pytest.param(
            "discover",
            {"--host-labels", "--target-missing-seconds", *ONLY_RUN},
            id="discover",
        ),
    ],
)
def test_help_names_every_setting_with_its_default(
    command: str, left_out: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert exit_of([command, "--help"]) == 0
    out, told = capsys.readouterr()
    assert told == ""
    _before, _title, shown = out.partition("\nsettings:\n")
    defaults = re.findall(r"^  (--[a-z-]+).*?\((needed|default [^)]+)\)$", shown, re.MULTILINE | re.DOTALL)
    assert defaults == [
        (flag, default)
        for flag, default in [
            ("--prometheus-url", "needed"),
            ("--targets-url", "default none"),
            ("--query-url", "default none"),
            ("--health-from", "default auto"),
            ("--prometheus-username", "default none"),
            ("--prometheus-password-file", "default none"),
            ("--prometheus-token-file", "default none"),
            ("--prometheus-ca-file", "default none"),
            ("--prometheus-cert-file", "default none"),
            ("--prometheus-key-file", "default none"),
            ("--prometheus-headers", "default none"),
            ("--prometheus-insecure", "default false"),
            ("--prometheus-proxy", "default false"),
            ("--poll-seconds", "default 5"),
            ("--telemetry-seconds", "default 30"),
            ("--target-ports", "default 9182,9183"),
            ("--host-labels", f"default {','.join(HOST_LABELS)}"),
            ("--target-missing-seconds", "default 60"),
            ("--valid-for-seconds", "default 180"),
            ("--profiles-file", "default none"),
            ("--listen", "default 127.0.0.1:8080"),
            ("--serve-topology", "default true"),
            ("--log-format", "default text"),
        ]
        if flag not in left_out
    ]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert (exit_of(["--version"]), *capsys.readouterr()) == (0, f"{controller.__version__}\n", "")


# ---- as a program

PROGRAM = """
# At its end it tells what it imported, and whether httpx would log each request.
import atexit, logging, sys
atexit.register(lambda: print(
    sorted({"asyncio", "httpx", "kopf", "kubernetes"} & {*sys.modules}), logging.getLogger("httpx").isEnabledFor(20)
))
from controller.__main__ import main
sys.exit(main())
"""


def program(*arguments: str, home: Path, **environment: str) -> tuple[int, str, str]:
    """Run it with nothing but what is given; return its exit code, what it tells at its end, and its complaint."""
    given = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=given, cwd=home, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()[-1], done.stderr


def test_a_bad_value_is_told_before_a_client_of_a_cluster_is_imported(tmp_path: Path) -> None:
    assert program("run", home=tmp_path, GPU_TOPOLOGY_PROMETHEUS_URL="http://u:s3cret@") == (
        2, "['asyncio'] False", complaint("prometheus_url", "Input should be a valid URL, empty host")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param(None, "there is no file 'kubeconfig'", id="no file"),
        pytest.param("", "'kubeconfig' is no kubeconfig", id="an empty file"),
        pytest.param("[]", "'kubeconfig' is no kubeconfig", id="a list"),
        pytest.param(
            "{}",
            "Invalid kube-config file. Expected key current-context in kubeconfig",
            id="a file that names no cluster",
        ),
        pytest.param(
            "a: b\n c: d",
            'mapping values are not allowed here in "kubeconfig", line 2, column 3',
            id="a file that is no YAML",
        ),
    ],
)
def test_without_a_cluster_one_line_says_so(tmp_path: Path, written: str | None, why: str) -> None:
    if written is not None:
        (tmp_path / "kubeconfig").write_text(written)
    assert program("run", f"--prometheus-url={URL}", home=tmp_path, KUBECONFIG="kubeconfig") == (
        1,
        "['asyncio', 'httpx', 'kopf', 'kubernetes'] False",
        f"gpu-topology: No Kubernetes cluster is configured (KUBECONFIG, or run it as a pod): {why}\n",
    )


def test_without_kubeconfig_the_usual_file_is_looked_for(tmp_path: Path) -> None:
    _code, _state, told = program("run", f"--prometheus-url={URL}", home=tmp_path)
    assert told == (
        "gpu-topology: No Kubernetes cluster is configured (KUBECONFIG, or run it as a pod): "
        "there is no file '~/.kube/config'\n"
    )
