"""One base URL and what opens it: bounded, authenticated requests, and every way in which they can fail.

Who asks sets the time: requests that are made by hand, as here, have no timeout of httpx' own.
"""

import ssl
from collections.abc import Mapping

import httpx

from controller.access import Access, AccessError, basic, proxy_for
from controller.names import Reason
from controller.texts import bounded

ANSWER_BYTES = 96 * 1024 * 1024
"""The longest answer that is read. Prometheus sends along what it discovered of a target: with 80 labels from
Kubernetes a target takes 8.8 kB, 10,000 of them 84 MiB."""

URL_BYTES = 4096
"""From which length on parameters are posted: some proxies and servers take no more than 8 kB of URL."""

REDIRECTS = 3
"""How often an answer may point to another place of the same server."""

EXCERPT = 300
_MESSAGE = 1000
_NO_POST = frozenset({403, 404, 405, 501})


class OriginError(Exception):
    """Why there is no answer: a reason for machines, a sentence for people without any secret."""

    def __init__(self, reason: Reason, text: str, status: int = 0, body: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        self.status = status
        """Of the answer over HTTP, where there was one."""
        self.body = body
        """How that began."""


class Origin:
    """A server with Prometheus' API below a base URL."""

    def __init__(self, base_url: str, access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
        url = httpx.URL(base_url)
        self.url = str(url.copy_with(userinfo=b"")).rstrip("/")
        """The base URL without credentials, which must reach neither log nor status."""
        self._own = basic(url.username, url.password) if url.userinfo else ""
        self._own_secrets = {url.password, self._own.partition(" ")[2]} - {""}
        self._access, self._transport = access, transport
        self._client: httpx.AsyncClient | None = None
        self._stamp: tuple[object, ...] = ()
        self._may_post = True

    async def aclose(self) -> None:
        """Close the connection."""
        if self._client:
            await self._client.aclose()
            self._client = None

    async def get(self, what: str, params: Mapping[str, str]) -> bytearray:
        """Return the body of a successful answer to api/v1/<what>; raise OriginError, or TimeoutError.

        What makes a URL too long is posted instead, unless that is not allowed.
        """
        url = f"{self.url}/api/v1/{what}"
        try:
            request = httpx.Request("GET", url, params=params)
            if self._may_post and len(str(request.url)) >= URL_BYTES:
                try:
                    return await self._ask(what, httpx.Request("POST", url, data=params))
                except OriginError as error:
                    if error.status not in _NO_POST:
                        raise
                    self._may_post = False
            return await self._ask(what, request)
        except (httpx.TimeoutException, TimeoutError):
            raise TimeoutError from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            # httpx passes on as it is what TLS says after the greeting, an OSError.
            text = f"cannot be reached: {str(error) or type(error).__name__}"
            raise self.error(Reason.CONNECTION_FAILED, text) from None
        except AccessError as error:
            raise self.error(Reason.CONNECTION_FAILED, f"cannot be asked: {error}") from None

    def error(self, reason: Reason, text: str, status: int = 0, body: str = "") -> OriginError:
        """Return an error that names this origin, with every secret blotted out."""
        for secret in sorted(self._own_secrets | self._access.secrets(), key=len, reverse=True):
            text, body = text.replace(secret, "***"), body.replace(secret, "***")
        return OriginError(reason, bounded(f"Prometheus at {self.url} {text}", _MESSAGE), status, body)

    async def _ask(self, what: str, request: httpx.Request) -> bytearray:
        for _ in range(1 + REDIRECTS):
            response = await self._send(request)
            try:
                place = _place(response)
                if place is None or not _is_same_server(place, request.url):
                    return await self._body(what, response, place)
            finally:
                await response.aclose()
            request = httpx.Request(request.method, place, headers=_content_type(request), content=request.content)
        raise self.error(
            Reason.HTTP_ERROR, f"answered {what} with more than {REDIRECTS} redirects", response.status_code
        )

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send, and once more where the server closes the connection without a word, as an idle one's end may cross."""
        client = await self._current()
        request.headers.update(self._access.headers)
        # Compressed answers could be longer than they look; a Prometheus next door need not compress.
        request.headers.update({"Accept-Encoding": "identity", "User-Agent": "gpu-topology"})
        if authorization := self._access.authorization() or self._own:
            request.headers["Authorization"] = authorization
        try:
            return await client.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            return await client.send(request, stream=True)

    async def _current(self) -> httpx.AsyncClient:
        """Return the client, a new one where a certificate has been replaced."""
        stamp = self._access.stamp()
        if self._client is None or stamp != self._stamp:
            await self.aclose()
            self._client, self._stamp = self._new_client(), stamp
        return self._client

    def _new_client(self) -> httpx.AsyncClient:
        url = httpx.URL(self.url)
        try:
            return httpx.AsyncClient(
                # One connection: the one after a connection that broke is a new one.
                limits=httpx.Limits(max_connections=1),
                # Proxies of the environment are for the internet, not for a Prometheus next door.
                trust_env=False,
                proxy=proxy_for(url.scheme, url.host) if self._access.proxy else None,
                # Without TLS, which redirects cannot change, nobody's certificate needs to be trusted.
                verify=self._access.tls() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                transport=self._transport,
            )
        except (ValueError, ImportError, httpx.InvalidURL):  # whose texts quote the proxy's URL
            raise AccessError("proxy", "the proxy that the environment names is none that can be used") from None

    async def _body(self, what: str, response: httpx.Response, place: httpx.URL | None) -> bytearray:
        encoded = response.headers.get("content-encoding", "identity") != "identity"
        if not response.is_success:
            text = "" if encoded else (await _read(response, 4 * EXCERPT)).decode(errors="replace")
            told = (
                f"it points to {place.copy_with(userinfo=b'', query=None, fragment=None)}" if place else excerpt(text)
            )
            status = f"{response.status_code} {response.reason_phrase}".rstrip()
            text_told = f"answered {what} with {status}" + (f": {told}" if told else "")
            raise self.error(Reason.HTTP_ERROR, text_told, response.status_code, text)
        if encoded:
            raise self.not_prometheus(f"{what}: compressed, which was not asked for")
        body = await _read(response, ANSWER_BYTES)
        if len(body) > ANSWER_BYTES:
            raise self.not_prometheus(f"{what}: longer than {ANSWER_BYTES:,} bytes")
        return body

    def not_prometheus(self, fault: str) -> OriginError:
        """Return the error that an answer is of another shape."""
        return self.error(Reason.INVALID_ANSWER, f"gave an answer that is not Prometheus' ({fault})")


def excerpt(text: str) -> str:
    """Return how a text begins, as one printable line."""
    return bounded(text[: 4 * EXCERPT], EXCERPT)


def _place(response: httpx.Response) -> httpx.URL | None:
    """Return where a redirect points to, if it is one and points to a place."""
    if not response.has_redirect_location:
        return None
    try:
        return response.request.url.join(response.headers["location"])
    except (httpx.InvalidURL, ValueError):
        return None


def _is_same_server(one: httpx.URL, other: httpx.URL) -> bool:
    # httpx leaves out the port that a scheme has by default.
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _content_type(request: httpx.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name == "content-type"}


async def _read(response: httpx.Response, limit: int) -> bytearray:
    """Return the body, uncopied; where it is longer than the limit, a byte more than the limit, and never read on."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk[: limit + 1 - len(body)]
        if len(body) > limit:
            break
    return body
