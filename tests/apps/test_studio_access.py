"""Attempts to break the studio: who may talk to it, over real sockets."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from studio_client import Page, png, raw, serving


def test_only_the_right_names_of_the_host_are_answered(page):
    port = page.host.partition(":")[2]
    wrong = [
        "evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", "127.0.0.1:1", f"127.0.0.1.nip.io:{port}",
        f"localhost.:{port}", f"127.1:{port}", f"0.0.0.0:{port}", f"[::1]:{port}", f"127.0.0.1:{port}@evil.example",
        f"evil.example@127.0.0.1:{port}", f"127.0.0.1:0{port}", f" 127.0.0.1:{port}.", "", f"LOCALHOST:{port}x",
    ]  # fmt: skip
    for host in wrong:
        for path in ("/", "/api/state", f"/?{page.query}"):
            status, _, headers = page.get(path, Host=host)
            assert status in (400, 403), (host, path)
            assert "set-cookie" not in headers
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert page.get("/api/state", Host=host)[0] == 200


def test_a_request_without_a_host_or_with_two_is_refused(page):
    cookie = f"Cookie: {page.cookie}\r\n"
    for hosts in ("", f"Host: {page.host}\r\nHost: evil.example\r\n"):
        request = f"GET /api/state HTTP/1.1\r\n{hosts}{cookie}Connection: close\r\n\r\n"
        assert raw(page.host, request.encode()).split()[1] in (b"400", b"403")
    request = f"GET /api/state HTTP/1.0\r\n{cookie}\r\n"  # HTTP/1.0 has no Host
    assert raw(page.host, request.encode()).split()[1] in (b"400", b"403")
    absolute = f"GET http://evil.example/api/state HTTP/1.1\r\nHost: evil.example\r\n{cookie}Connection: close\r\n\r\n"
    assert raw(page.host, absolute.encode()).split()[1] in (b"400", b"403")


def test_nothing_is_answered_without_the_cookie(page):
    image = page.open("a.png", png(16, 16))
    value = page.cookie.partition("=")[2]
    wrong = [
        None, "", "x=y", f"nlridge={value}", f"{page.cookie}x", page.cookie[:-1], page.cookie.upper(),
        f"{page.cookie}; {page.cookie.partition('=')[0]}=other", page.cookie.partition("=")[0] + "=",
    ]  # fmt: skip
    for cookie in wrong:
        for path in ("/", "/static/studio.js", "/api/state", "/api/events", f"/api/images/{image['id']}/commands"):  # fmt: skip
            assert page.get(path, Cookie=cookie)[0] == 403, (cookie, path)
        assert page("POST", "/api/images?name=a.png", b"", Cookie=cookie)[0] == 403
        assert page("DELETE", f"/api/images/{image['id']}", Cookie=cookie)[0] == 403
    assert page.state(image)


def test_the_token_works_once_and_the_cookie_is_out_of_reach(tmp_path):
    with serving(tmp_path) as running:
        token = urlsplit(running.address).query
        address = running.address.partition("?")[0]
        page = Page.__new__(Page)
        page.host = urlsplit(address).netloc
        for wrong in ("token=", "token=x", f"{token}x", token[:-1], "token=%00", "token=%F0%9F%98%80", f"other={token}"):  # fmt: skip
            assert page.get(f"/?{wrong}")[0] == 403
        assert page("HEAD", f"/?{token}")[0] == 403  # does not use it up
        page = Page(running.address)
        words = [word.strip() for word in page.set_cookie.split(";")[1:]]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(words)
        assert token.partition("=")[2] not in page.set_cookie
        status, answer, headers = page.get(f"/?{token}", Cookie=None)
        assert (status, "set-cookie" in headers) == (403, False)
        assert "used before" in answer["error"]
        assert page.get(f"/?{token}")[0] == 303  # who has the cookie may reload


def test_secrets_are_compared_in_constant_time():
    import inspect

    from nlridge.apps.studio import security

    source = inspect.getsource(security.Access)
    assert source.count("hmac.compare_digest") == 2
    assert "== self.token" not in source
    assert "== self._cookie" not in source


def test_writes_need_the_own_origin_and_the_header(page):
    image = page.open("a.png", png(16, 16))
    port = page.host.partition(":")[2]
    writes = [
        ("POST", "/api/images?name=a.png", png(8, 8)),
        ("DELETE", f"/api/images/{image['id']}", None),
        ("PUT", f"/api/images/{image['id']}/settings", {"strength": 1.5}),
        ("PUT", f"/api/images/{image['id']}/view", {}),
        ("POST", f"/api/images/{image['id']}/save", {}),
        ("POST", "/api/folder/run", {}),
        ("POST", "/api/folder/stop", {}),
        ("POST", "/api/files/x/open", {}),
        ("PATCH", "/api/state", None),
        ("OPTIONS", "/api/images", None),
    ]
    origins = [
        None, "null", "", "http://evil.example", f"https://{page.host}", "http://127.0.0.1", f"http://127.0.0.1:{int(port) - 1}",
        f"http://localhost:{port}", f"http://{page.host}.evil.example", f"http://{page.host}/",
    ]  # fmt: skip
    for method, path, body in writes:
        for origin in origins:
            assert page(method, path, body, Origin=origin)[0] == 403, (method, path, origin)
        for header in (None, "0", "", "1, 1"):
            assert page(method, path, body, X_Nlridge=header)[0] == 403, (method, path)
    state = page.state(image)
    assert (state["revision"], state["settings"]["strength"]) == (1, 1.0)
    for origin in ("http://evil.example", f"http://localhost:{port}"):
        assert page.get("/api/state", Origin=origin)[0] == 403
    for site in ("cross-site", "same-site"):  # another port of this computer is the same site
        assert page.get("/api/state", Sec_Fetch_Site=site)[0] == 403
        assert page.get("/static/studio.js", Sec_Fetch_Site=site)[0] == 403


def test_every_answer_protects_the_page(page):
    paths = ["/", "/static/studio.js", "/static/none", "/api/state", "/api/none", "/x", f"/?{page.query}"]  # fmt: skip
    answers = [page.get(path) for path in paths]
    answers += [page.get("/", Cookie=None), page.get("/", Host="evil.example"), page("POST", "/api/images")]  # fmt: skip
    for _, _, headers in answers:
        policy = headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert "script-src 'self'" in policy
        assert not any("unsafe" in rule or "http" in rule or "*" in rule for rule in policy)
        assert {"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} <= set(policy)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in headers)
        assert "server" not in headers


def test_head_and_options(page):
    status, data, headers = page("HEAD", "/api/state")
    assert (status, data) == (200, b"")
    status, _, headers = page("OPTIONS", "/api/state")
    assert status in (403, 405)
    assert not any(name.startswith("access-control") for name in headers)
    assert page("TRACE", "/")[0] in (400, 403, 405)


def test_websockets_are_refused(page):
    request = (
        f"GET /api/events HTTP/1.1\r\nHost: {page.host}\r\nCookie: {page.cookie}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101" not in raw(page.host, request.encode(), wait=1).split(b"\r\n")[0]


def test_a_request_of_two_lengths_is_refused(page):
    head = (
        f"POST /api/folder/stop HTTP/1.1\r\nHost: {page.host}\r\nOrigin: http://{page.host}\r\nX-Nlridge: 1\r\n"
        f"Cookie: {page.cookie}\r\nConnection: close\r\n"
    )
    lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert b"two lengths" in raw(page.host, (head + lengths).encode())
    one = raw(page.host, (head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").encode())
    assert b"started without a folder" in one


@pytest.mark.slow
def test_of_many_visitors_at_once_one_is_admitted(tmp_path):
    with serving(tmp_path / "work") as running:
        page = Page.__new__(Page)
        page.host = urlsplit(running.address).netloc
        path = f"/?{urlsplit(running.address).query}"
        with ThreadPoolExecutor(20) as threads:
            answers = list(threads.map(lambda _: page.get(path), range(40)))
        assert sorted(status for status, *_ in answers) == [303] + [403] * 39
        (headers,) = [headers for status, _, headers in answers if status == 303]
        cookie = headers["set-cookie"].split(";")[0]
        with serving(tmp_path / "other") as other:  # as after a restart, or on another port
            stranger = Page(other.address)
            renamed = f"{stranger.cookie.partition('=')[0]}={cookie.partition('=')[2]}"
            for replayed in (cookie, renamed):
                assert stranger.get("/api/state", Cookie=replayed)[0] == 403
            assert stranger.get(path, Cookie=None)[0] == 403


def test_a_person_who_may_not_enter_gets_a_page_that_says_what_to_do(tmp_path):
    """Another browser, or the same without its cookie: what was JSON is for scripts alone."""
    browsers = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
    with serving(tmp_path) as running:
        page = Page(running.address)
        stranger = {**browsers, "Cookie": None}
        for path, words in ((f"/?{page.query}", "This address was used before"), ("/", "This page needs the address")):  # fmt: skip
            status, answer, headers = page.get(path, **stranger)
            assert (status, headers["content-type"]) == (403, "text/html; charset=utf-8")
            assert "set-cookie" not in headers
            text = answer.decode()
            assert f"<strong>{words}" in text
            assert "start it again with <code>nlridge studio</code>" in text
            assert '<a href="/">' in text
            assert page.query.partition("=")[2] not in text
        status, answer, headers = page.get("/x<script>", **browsers)  # who has access as well
        assert (status, b"There is no such address" in answer) == (404, True)
        assert b"<script>" not in answer
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert not any("unsafe" in rule for rule in policy)
        assert page.get("/api/state", Cookie=None, Accept="*/*")[1]["error"].startswith("this page")
        assert page.get(f"/?{page.query}", **browsers)[0] == 303  # with the cookie, it works again
