"""Firefox's remote control, for pages that are not ours to put a script into.

Its protocol is JSON over TCP, each message led by its length: `[0, id, command, parameters]` and
`[1, id, error, result]`. Every wait ends.
"""

import base64
import json
import socket
import time
from pathlib import Path
from typing import Any, Self

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver's name for a reference


class MarionetteError(Exception):
    """Firefox refused a command, or a page threw."""


class Marionette:
    """A session with a Firefox started with `--marionette`, in a tab of its own."""

    def __init__(self, profile: Path, seconds: float = 60) -> None:
        self._socket = socket.create_connection(("127.0.0.1", _port(profile, seconds)), seconds)
        self._stream = self._socket.makefile("rb")
        self._last_id = 0
        self._receive()  # the message that opens the connection
        self.command("WebDriver:NewSession")
        milliseconds = int(seconds * 1000)
        self.command("WebDriver:SetTimeouts", script=milliseconds, pageLoad=milliseconds)
        tab = self.command("WebDriver:NewWindow", type="tab", focus=True)["handle"]
        self.command("WebDriver:SwitchToWindow", handle=tab, focus=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.command("WebDriver:CloseWindow")
            self.command("WebDriver:DeleteSession")
        finally:
            self._stream.close()
            self._socket.close()

    def command(self, name: str, **parameters: object) -> Any:
        """The result of a command.

        :raises MarionetteError: it was refused
        """
        self._last_id += 1
        text = json.dumps([0, self._last_id, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, number, error, result = self._receive()
        assert number == self._last_id
        if error:
            raise MarionetteError(f"{name}: {error['message']}")
        return result

    def trust(self, authority: Path) -> None:
        """Have the profile trust a CA for servers, from now on; it remembers that.

        Firefox makes no exceptions that a user could confirm for the connection to its push
        service, so the chain of a private certificate has to lead to a CA it trusts.
        """
        base64_text = "".join(authority.read_text().strip().splitlines()[1:-1])
        self.command("Marionette:SetContext", value="chrome")
        script = """
            Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB)
                .addCertFromBase64(arguments[0], "C,,")
        """
        self.command("WebDriver:ExecuteScript", script=script, args=[base64_text])
        self.command("Marionette:SetContext", value="content")

    def click_notification(self, title: str) -> None:
        """Click on a notification, once it is shown: a window of Firefox's own, as there is no
        desktop that would show it. A script takes the place of the mouse.
        """
        self.command("Marionette:SetContext", value="chrome")
        script = """
            const [title] = arguments;
            const isIt = (shown) =>
                shown.gIsActive && shown.document.getElementById("alertTitleLabel").value === title;
            return (async () => {
                let alert;
                while (!(alert = [...Services.wm.getEnumerator("alert:alert")].find(isIt)))
                    await new Promise((done) => setTimeout(done, 20));
                alert.document.getElementById("alertBox").click();
            })();
        """
        self.command("WebDriver:ExecuteScript", script=script, args=[title])
        self.command("Marionette:SetContext", value="content")

    def goto(self, url: str) -> None:
        """Open a URL and wait until it is loaded."""
        self.command("WebDriver:Navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression as JSON; a promise is awaited."""
        script = f"return (async () => ({expression}))()"
        return self.command("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true, asked at each change of the document."""
        self.evaluate(
            f"""await new Promise((done) => {{
              const ask = () => ({condition}) && (observer.disconnect(), done());
              const observer = new MutationObserver(ask);
              observer.observe(document,
                {{ subtree: true, childList: true, attributes: true, characterData: true }});
              ask();
            }})"""
        )

    def click(self, selector: str) -> None:
        """Click as a user does: the element must be visible and not covered."""
        found = self.command("WebDriver:FindElement", using="css selector", value=selector)
        self.command("WebDriver:ElementClick", id=found["value"][ELEMENT])

    def type(self, selector: str, text: str) -> None:
        """Type into a field, in place of what it holds."""
        found = self.command("WebDriver:FindElement", using="css selector", value=selector)
        self.command("WebDriver:ElementClear", id=found["value"][ELEMENT])
        self.command("WebDriver:ElementSendKeys", id=found["value"][ELEMENT], text=text)

    def screenshot(self, path: Path) -> None:
        """A PNG of the whole page, not only of what the window shows."""
        answer = self.command("WebDriver:TakeScreenshot", full=True)
        path.write_bytes(base64.b64decode(answer["value"]))

    def _receive(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            byte = self._stream.read(1)
            if not byte:
                raise MarionetteError("Firefox ended")
            length += byte
        return json.loads(self._stream.read(int(length[:-1])))


def _port(profile: Path, seconds: float) -> int:
    """The port it listens on, which Firefox writes to a file of its profile."""
    file = profile / "MarionetteActivePort"
    deadline = time.monotonic() + seconds
    while not (file.exists() and (text := file.read_text())):
        if time.monotonic() > deadline:
            raise MarionetteError(f"no {file.name} in {seconds} s")
        time.sleep(0.05)
    return int(text)
