package httpedge_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
)

var errUnavailable = errors.New("nats: secret internals")

// The rows of the list of invalid inputs that an HTTP request can have, sent as bytes. No response may contain "INJECTED".
func TestBadRequests(t *testing.T) {
	long := strings.Repeat("x", 300)
	get := func(target string, headers ...string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: edge\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	}
	events := func(query string, headers ...string) string { return get("/v1/sessions/s1/events"+query, headers...) }
	session := func(id string) string { return get("/v1/sessions/" + id + "/events") }
	method := func(m string) string { return strings.Replace(events(""), "GET", m, 1) }
	for _, tt := range []struct {
		name    string
		request string
		status  []int
		code    string // of the problem, if the edge writes it
	}{
		{"H01 letters", events("", "Last-Event-ID: abc"), bad, "BAD_CURSOR"},
		{"H02 negative", events("", "Last-Event-ID: -1"), bad, "BAD_CURSOR"},
		{"H03 2^64", events("", "Last-Event-ID: 18446744073709551616"), bad, "BAD_CURSOR"},
		{"H04 2^63", events("", "Last-Event-ID: 9223372036854775808"), bad, "BAD_CURSOR"},
		{"H05 fraction", events("", "Last-Event-ID: 1.5"), bad, "BAD_CURSOR"},
		{"H06 hexadecimal", events("", "Last-Event-ID: 0x10"), bad, "BAD_CURSOR"},
		{"H07 signed", events("", "Last-Event-ID: +5"), bad, "BAD_CURSOR"},
		{"H09 inner space", events("", "Last-Event-ID: 1 2"), bad, "BAD_CURSOR"},
		{"H10 8 kB of digits", events("", "Last-Event-ID: "+strings.Repeat("9", 8<<10)), bad, "BAD_CURSOR"},
		{"H12 two numbers", events("", "Last-Event-ID: 1,2"), bad, "BAD_CURSOR"},
		{"H13 exponent", events("", "Last-Event-ID: 1e3"), bad, "BAD_CURSOR"},
		{"H14 full-width digits", events("", "Last-Event-ID: １２"), bad, "BAD_CURSOR"},
		{"H16 text of the wire", events("", "Last-Event-ID: data: INJECTED"), bad, "BAD_CURSOR"},
		{"H17 NUL", events("", "Last-Event-ID: 1\x00INJECTED"), bad, ""},
		{"H18 CR and a second header", events("", "Last-Event-ID: 1\rX-INJECTED: 1"), bad, ""},
		{"H19 twice", events("", "Last-Event-ID: 1", "Last-Event-ID: 1"), bad, "BAD_CURSOR"},
		{"H20 disagreeing, the explicit one unreadable", events("", "Last-Event-ID: 1", "X-Resume-From-Sequence: x"), bad, "BAD_CURSOR"},
		{"H20 the other name unreadable", events("", "X-Resume-At: INJECTED"), bad, "BAD_CURSOR"},
		{"H21 wants JSON", events("", "Accept: application/json"), []int{406}, "NOT_ACCEPTABLE"},
		{"H23 no Host", "GET /healthz HTTP/1.1\r\n\r\n", bad, ""},
		{"H24 two Hosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", bad, ""},
		{"H25 unknown Host", "GET /healthz HTTP/1.1\r\nHost: INJECTED.example:80\r\n\r\n", []int{421}, "MISDIRECTED"},
		{"H28 space in a name", events("", "Bad Name: 1"), bad, ""},
		{"H29 no colon", events("", "INJECTED"), bad, ""},
		{"H30 100 kB header", events("", "X-Big: "+strings.Repeat("x", 100<<10)), []int{431}, ""},
		{"H31 20,000 headers", events("", strings.Repeat("A: b\r\n", 20_000)+"A: b"), []int{431}, ""},

		{"Q01 position twice", events("?after=1&after=1"), bad, "BAD_CURSOR"},
		{"Q01 scope twice", events("?scope=tree&scope=INJECTED"), bad, "BAD_PARAMETER"},
		{"Q02 NaN", events("?after=NaN"), bad, "BAD_CURSOR"},
		{"Q02 negative", events("?after=-1"), bad, "BAD_CURSOR"},
		{"Q02 exponent", events("?after=1e9"), bad, "BAD_CURSOR"},
		{"Q04 a long query", events("?" + strings.Repeat("a=b&", 5_000)), bad, "BAD_PARAMETER"},
		{"Q05 bad escape", events("?after=%zz"), bad, "BAD_PARAMETER"},
		{"Q05 semicolons", events("?after=1;types=x"), bad, "BAD_PARAMETER"},
		{"Q09 CRLF", events("?types=a%0d%0aINJECTED:1"), bad, "BAD_PARAMETER"},
		{"unknown scope", events("?scope=INJECTED"), bad, "BAD_PARAMETER"},
		{"tree of a sub-agent", events("?root=r&scope=tree"), bad, "BAD_PARAMETER"},
		{"root is no id", events("?root=a%20b"), bad, "BAD_SESSION_ID"},
		{"agent is no id", events("?agent=a%20b"), bad, "BAD_PARAMETER"},
		{"empty type", events("?types=a,,b"), bad, "BAD_PARAMETER"},
		{"too many types", events("?exclude=" + strings.Repeat("a,", 64) + "a"), bad, "BAD_PARAMETER"},
		{"limit is no number", get("/v1/sessions/s1/messages?limit=INJECTED"), bad, "BAD_PARAMETER"},
		{"limit is too large", get("/v1/sessions/s1/messages?limit=201"), bad, "BAD_PARAMETER"},
		{"limit is nothing", get("/v1/sessions/s1/messages?limit=0"), bad, "BAD_PARAMETER"},
		{"no such message", get("/v1/sessions/s1/messages?before=INJECTED"), bad, "BAD_CURSOR"},
		{"messages is not a number", get("/v1/sessions/s1/snapshot?messages=INJECTED"), bad, "BAD_PARAMETER"},
		{"messages is too many", get("/v1/sessions/s1/snapshot?messages=201"), bad, "BAD_PARAMETER"},
		{"messages is none", get("/v1/sessions/s1/snapshot?messages=0"), bad, "BAD_PARAMETER"},
		{"messages of the past", get("/v1/sessions/s1/snapshot?messages=1&at=1"), bad, "BAD_PARAMETER"},
		{"messages of a checkpoint", get("/v1/sessions/s1/snapshot?messages=1&checkpoint=c"), bad, "BAD_PARAMETER"},
		{"partial is neither", get("/v1/sessions/s1/snapshot?partial=INJECTED"), bad, "BAD_PARAMETER"},

		{"P01 *", session("*"), bad, "BAD_SESSION_ID"},
		{"P02 >", session(">"), bad, "BAD_SESSION_ID"},
		{"P03 escaped *", session("%2A"), bad, "BAD_SESSION_ID"},
		{"P04 dots", session("a.b.c"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P05 two dots", session("a..b"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P06 .", session("."), bad, "BAD_SESSION_ID"},
		{"P07 ..", session(".."), bad, "BAD_SESSION_ID"},
		{"P08 leading dot", session(".a"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P10 space", session("a%20b"), bad, "BAD_SESSION_ID"},
		{"P11 tab", session("a%09"), bad, "BAD_SESSION_ID"},
		{"P12 CRLF", session("a%0d%0aX-INJECTED:1"), bad, "BAD_SESSION_ID"},
		{"P13 LF and data", session("a%0adata:INJECTED"), bad, "BAD_SESSION_ID"},
		{"P14 NUL", session("a%00"), bad, "BAD_SESSION_ID"},
		{"P15 API of the server", session("$JS.API.STREAM.PURGE.X"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P16 inbox", session("_INBOX.x"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P17 system", session("$SYS"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P18 e-acute", session("%C3%A9"), bad, "BAD_SESSION_ID"},
		{"P19 RTL override", session("%E2%80%AE"), bad, "BAD_SESSION_ID"},
		{"P20 full-width dot", session("%EF%BC%8E"), bad, "BAD_SESSION_ID"},
		{"P21 emoji", session("%F0%9F%98%80"), bad, "BAD_SESSION_ID"},
		{"P22 invalid UTF-8", session("%ff"), bad, "BAD_SESSION_ID"},
		{"P23 overlong dot", session("%C0%AE"), bad, "BAD_SESSION_ID"},
		{"P24 escaped slash", session("a%2Fb"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P25 double escape", session("a%252Fb"), []int{http.StatusNotFound}, "STREAM_NOT_FOUND"},
		{"P26 300 bytes", session(long), bad, "BAD_SESSION_ID"},
		{"P27 5,000 bytes", session(strings.Repeat("x", 5_000)), bad, "BAD_SESSION_ID"},
		{"P40 empty", session(""), bad, "BAD_SESSION_ID"},
		{"P41 raw ../..", get("/v1/sessions/../../events"), []int{404}, "NOT_FOUND"},
		{"P42 bad escape", session("%zz"), bad, ""},
		{"P43 raw NUL", session("a\x00b"), bad, ""},
		{"P44 raw 8-bit", session("a\xffb"), bad, "BAD_SESSION_ID"},
		{"P45 64 kB path", get("/" + strings.Repeat("x", 64<<10)), []int{431, 414}, ""},
		{"P46 of another tenant, or unknown", session("unknown"), []int{404}, "STREAM_NOT_FOUND"},
		{"a slash too many", get("/v1/sessions/s1/events/"), []int{404}, "NOT_FOUND"},
		{"two slashes", get("//v1/sessions/s1/events"), []int{404}, "NOT_FOUND"},
		{"no leaf", get("/v1/sessions/s1"), []int{404}, "NOT_FOUND"},
		{"unknown leaf", get("/v1/sessions/s1/INJECTED"), []int{404}, "NOT_FOUND"},
		{"the root", get("/"), []int{404}, "NOT_FOUND"},

		{"M01 PUT", method("PUT"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M02 DELETE", method("DELETE"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M03 PATCH", method("PATCH"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M04 TRACE", method("TRACE"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M05 PROPFIND", method("PROPFIND"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M06 get", method("get"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M07 FOO", method("FOO"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M08 OPTIONS, a preflight of another origin", method("OPTIONS"), []int{405}, "METHOD_NOT_ALLOWED"},
		{"M12 CONNECT", "CONNECT edge:80 HTTP/1.1\r\nHost: edge\r\n\r\n", []int{400, 404, 405}, ""},
		{"M14 HTTP/9.9", "GET / HTTP/9.9\r\nHost: edge\r\n\r\n", []int{400, 505}, ""},
		{"M16 garbage", "\x16\x03\x01\x02\x00\x01\r\n\r\n", bad, ""},
		{"E01 length and chunks", events("", "Content-Length: 5", "Transfer-Encoding: chunked"), []int{400, 413}, ""},
		{"E10 50 GB", events("", "Content-Length: 53687091200"), []int{413}, "CONTENT_TOO_LARGE"},
		{"a body", events("", "Content-Length: 1") + "x", []int{413}, "CONTENT_TOO_LARGE"},
		{"a body in chunks", events("", "Transfer-Encoding: chunked") + "0\r\n\r\n", []int{413}, "CONTENT_TOO_LARGE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{edge: httpedge.Config{Host: func(host string) bool { return host == "edge" || host == "a" }}})
				w.log.Append(s1, chunk.TypeRunStarted, "")
				checkRefusal(t, w, tt.request, tt.status, tt.code)
			})
		})
	}
}

var bad = []int{http.StatusBadRequest}

func checkRefusal(t *testing.T, w *env, request string, statuses []int, code string) {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.WriteString(conn, request) // fails when the server has read enough
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	good := false
	for _, status := range statuses {
		good = good || resp.StatusCode == status
	}
	if !good {
		t.Errorf("got %d %q, want %v", resp.StatusCode, body, statuses)
	}
	if all := fmt.Sprint(resp.Header) + string(body); strings.Contains(all, "INJECTED") {
		t.Errorf("the answer repeats what was sent: %s", all)
	}
	if code == "" {
		return
	}
	var problem struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Code   string `json:"code"`
		Error  string `json:"error"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	if problem.Code != code || problem.Status != resp.StatusCode || problem.Title == "" || problem.Error == "" || problem.Type == "" ||
		resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %+v, %v, want %s", problem, resp.Header, code)
	}
	if resp.StatusCode == http.StatusMethodNotAllowed && resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", resp.Header.Get("Allow"))
	}
}

// Unusual requests that are valid.
func TestUnusualValidRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		query  string
		header http.Header
	}{
		"H15 empty Last-Event-ID":             {"", http.Header{"Last-Event-Id": {""}}},
		"H35 malformed traceparent":           {"", http.Header{"Traceparent": {"00-xyz"}, "Baggage": {strings.Repeat("a=b,", 5_000)}}},
		"H36 spoofed address":                 {"", http.Header{"X-Forwarded-For": {"127.0.0.1"}}},
		"H37 upgrade to h2c":                  {"", http.Header{"Upgrade": {"h2c"}, "Connection": {"Upgrade, HTTP2-Settings"}, "Http2-Settings": {"AAMAAABkAAQAAP__"}}},
		"H39 Origin of another site":          {"", http.Header{"Origin": {"https://evil.example"}, "Cookie": {"a=b"}}},
		"H40 null Origin":                     {"", http.Header{"Origin": {"null"}}},
		"Q03 token in the URL":                {"?access_token=secret", nil},
		"Q07 other session":                   {"?session=other", nil},
		"Q08 JSONP callback":                  {"?callback=%3Cscript%3E", nil},
		"K16 headers of NATS":                 {"", http.Header{"Nats-Rollup": {"all"}, "Nats-Msg-Id": {"x"}}},
		"filters that name unknown types":     {"?types=a,run_started&exclude=b", nil},
		"empty parameters":                    {"?after=&scope=&types=&root=&agent=", nil},
		"an agent that is not in the session": {"?agent=unknown", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{})
				w.log.Append(s1, chunk.TypeRunStarted, "")
				w.log.Append(s1, chunk.TypeStreamEnd, "")
				resp := w.get(soon(t), "/v1/sessions/s1/events"+tt.query, tt.header)
				defer resp.Body.Close()
				body := readAll(t, resp.Body)
				if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, "data: {\"type\":\"end\"}\n\n") {
					t.Errorf("got %d %q", resp.StatusCode, body)
				}
				if allowed := resp.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
					t.Errorf("allowed to %q", allowed)
				}
				if strings.Contains(fmt.Sprint(resp.Header)+body, "script") {
					t.Errorf("reflected: %v %q", resp.Header, body)
				}
			})
		})
	}
}

func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "app.localhost": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:8080": true, "[::1]": true,
		"evil.example": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "10.0.0.1": false, "": false, "notlocalhost": false,
		"0.0.0.0": false, "169.254.169.254": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{edge: httpedge.Config{Host: httpkit.LoopbackHost}})
			req := http.Request{Method: http.MethodGet, Host: host, URL: &url.URL{Path: "/healthz"}}
			status := w.serveRequest(&req)
			if got := status == http.StatusOK; got != want {
				t.Errorf("host %q: status %d", host, status)
			}
		})
	}
}
