"""Responses that arrive in any pieces, and are cut at every byte."""

import unittest

from tailrace import Unreachable
from tailrace._errors import Cut
from tailrace._http import Address, Parser, Request, encode, path_of

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n wo\r\n0\r\nTrailer: x\r\n\r\n",
    b"hello wo",
)
SIZED = (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", b"abcd")
EMPTY = (b"HTTP/1.1 204 No Content\r\n\r\n", b"")
ADDRESS = Address("http://edge.test:1/base/")


class Responses(unittest.TestCase):
    def test_pieces(self) -> None:
        for response, body in (CHUNKED, SIZED, EMPTY):
            for size in range(1, len(response) + 1):
                parser = Parser(ADDRESS)
                got = b"".join(parser.feed(response[i : i + size]) for i in range(0, len(response), size))
                self.assertEqual((got, parser.complete), (body, True))

    def test_cuts(self) -> None:
        for response, _ in (CHUNKED, SIZED, EMPTY):
            for end in range(len(response)):
                parser = Parser(ADDRESS)
                parser.feed(response[:end])
                with self.assertRaises(Cut):
                    parser.end()

    def test_until_the_end(self) -> None:
        parser = Parser(ADDRESS)
        self.assertEqual(parser.feed(b"HTTP/1.0 502 Bad Gateway\r\nServer: x\r\n\r\nno"), b"no")
        self.assertFalse(parser.complete)
        parser.end()
        self.assertEqual((parser.status, parser.headers["server"], parser.complete), (502, "x", True))

    def test_other_protocols(self) -> None:
        for data, error in ((b"INFO {}", Unreachable), (b"SSH-2.0", Unreachable), (b"HTTP/1.1 20\r\n\r\n", Cut), (b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000, Cut)):
            with self.assertRaises(error):
                Parser(ADDRESS).feed(data)
        for size in (b"", b"-1", b"x", b"f" * 20):
            with self.assertRaises(Cut):
                Parser(ADDRESS).feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")


class Requests(unittest.TestCase):
    def test_ids_are_quoted(self) -> None:
        path = path_of("sessions", "a/b c\r\n", "events", after="1-é", view=None)
        self.assertEqual(path, "/v1/sessions/a%2Fb%20c%0D%0A/events?after=1-%C3%A9")

    def test_a_token_is_one_header(self) -> None:
        with self.assertRaises(ValueError):
            encode(ADDRESS, Request("GET", "/"), "x\r\nHost: other")
        head = encode(ADDRESS, Request("GET", "/v1"), "t")
        self.assertTrue(head.startswith(b"GET /base/v1 HTTP/1.1\r\nHost: edge.test:1\r\n") and b"Authorization: Bearer t\r\n" in head)
