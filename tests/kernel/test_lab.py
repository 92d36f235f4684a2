"""`make lab` as a user gets it: a real server, our kernel in its list, a cell run through its own interface."""

import json
import os
import signal
import socket
import subprocess
import time
import uuid

import pytest
import requests
import websocket
from conftest import ROOT

TOKEN = "test"
HANGS_AFTER = 600  # seconds; a guard against a server that hangs, not a measure of speed
SILENT_AFTER = 300  # seconds after which a kernel counts as one that hangs; four of them in turn are given up
TRIES = 4


def answers(address):
    try:
        return requests.get(f"http://{address}/api", timeout=HANGS_AFTER).ok
    except requests.ConnectionError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--no-browser --ip=127.0.0.1 --port={port} --IdentityProvider.token={TOKEN}"
    log = open(tmp_path_factory.mktemp("lab") / "log", "w+")
    process = subprocess.Popen(
        ["make", "lab", f"LAB_FLAGS={flags}"], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
    )
    address = f"127.0.0.1:{port}"
    try:
        began = time.monotonic()
        while not answers(address):
            assert process.poll() is None and time.monotonic() - began < HANGS_AFTER, open(log.name).read()
            time.sleep(0.5)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=HANGS_AFTER)


def ask(server, method, path, **body):
    answer = requests.request(
        method, f"http://{server}/api/{path}", headers={"Authorization": f"token {TOKEN}"}, timeout=HANGS_AFTER, **body
    )
    answer.raise_for_status()
    return answer.json() if answer.content else None


def test_the_lab_page_opens(server):
    page = requests.get(f"http://{server}/lab", params={"token": TOKEN}, timeout=HANGS_AFTER)
    assert page.ok and "JupyterLab" in page.text


def test_the_notebooks_and_our_kernel_are_listed(server):
    names = [entry["name"] for entry in ask(server, "GET", "contents")["content"]]
    assert "00_tour.ipynb" in names
    spec = ask(server, "GET", "kernelspecs")["kernelspecs"]["lastlayer"]["spec"]
    assert spec["display_name"] == "Rust (lastlayer)"
    assert spec["env"]["CARGO_PROFILE_DEV_OPT_LEVEL"] == "3"
    assert spec["env"]["CARGO_PROFILE_DEV_DEBUG_ASSERTIONS"] == "false"


def answer_to(server, code):
    """What a cell shows in a kernel of its own; nothing if the kernel is silent for too long."""
    kernel = ask(server, "POST", "kernels", json={"name": "lastlayer"})["id"]
    channel = websocket.create_connection(
        f"ws://{server}/api/kernels/{kernel}/channels?token={TOKEN}", timeout=HANGS_AFTER
    )
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "session": uuid.uuid4().hex,
              "version": "5.3", "date": ""}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
    channel.send(json.dumps(message))
    channel.settimeout(1)  # the server's pings would put off one that is longer than their interval
    began = time.monotonic()
    try:
        while time.monotonic() - began < SILENT_AFTER:
            try:
                reply = json.loads(channel.recv())
            except websocket.WebSocketTimeoutException:
                continue
            assert reply["msg_type"] not in ("error",), reply["content"]
            if reply["msg_type"] == "execute_result":
                return reply["content"]["data"]["text/plain"]
    finally:
        channel.close()
        ask(server, "DELETE", f"kernels/{kernel}")


def test_a_cell_runs_through_the_server(server):
    code = "use lastlayer::prelude::*;\nkernel_check(&Device::Cpu, Seed::new(7))?"
    # On a busy machine evcxr_jupyter may stop for good while Jupyter connects: it goes on answering on its control channel
    # and on no other. What a user does then helps here too: another kernel.
    shown = next(filter(None, (answer_to(server, code) for _ in range(TRIES))), "no answer")
    assert "| kernel | evcxr_jupyter 0.22.0 |" in shown
