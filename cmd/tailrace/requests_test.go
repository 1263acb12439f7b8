package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// do sends a request. The Host of the header is that of the request.
func do(ctx context.Context, method, url, body string, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	req.Host = req.Header.Get("Host")
	return http.DefaultClient.Do(req)
}

// read sends a request, and reads the response to its end.
func read(ctx context.Context, method, url, body string, header map[string]string) (status int, h http.Header, text string, err error) {
	resp, err := do(ctx, method, url, body, header)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(all), err
}

// bearer is the header with a token, without one if it is empty.
func bearer(token string) map[string]string {
	if token == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + token}
}

// get reads a page. The host may be empty.
func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	status, _, text, err := read(t.Context(), http.MethodGet, url, "", map[string]string{"Host": host})
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

// sendAs sends a request with a header, and returns the status, the header and the body, of a stream its first event.
func sendAs(t *testing.T, method, url, body string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := do(ctx, method, url, body, header)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := bodyText(resp)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, text
}

// bodyText reads the body of a response, of a stream its first event.
func bodyText(resp *http.Response) (string, error) {
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return firstEvent(bufio.NewReader(resp.Body))
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// firstEvent reads up to the end of the next event with data.
func firstEvent(r *bufio.Reader) (string, error) {
	var event strings.Builder
	for {
		line, err := r.ReadString('\n')
		event.WriteString(line)
		if err != nil {
			return event.String(), err
		}
		if line == "\n" {
			if strings.Contains(event.String(), "data:") {
				return event.String(), nil
			}
			event.Reset()
		}
	}
}
