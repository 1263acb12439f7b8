package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/outgoing"
)

// request is the input of a model call.
type request struct {
	system      string
	history     []entry
	tools       []*tool
	requireTool bool // the response must be a call
}

// result is the end of a response.
type result struct {
	finish string // in the terms of the log
	model  string // that the endpoint names, "" for none
	usage  *openaistream.Usage
}

// defaultBaseURL is the URL of OpenAI's API.
const defaultBaseURL = "https://api.openai.com/v1"

// maxErrorBytes is how much is read of the body of an error.
const maxErrorBytes = 1 << 20

// statusError is an HTTP response with an error. Its message is not for users.
type statusError struct {
	status int
	header http.Header
	body   openaistream.Error
}

func (e *statusError) Error() string {
	return "endpoint responded with status " + strconv.Itoa(e.status)
}

// send sends a request and writes the response with p. The error is of the endpoint, the connection or the context, unless p has one. It is not repeated here,
// because only the caller knows which output was written. Any data of the endpoint starts idle again.
func (a *Agent) send(ctx context.Context, idle *outgoing.Timer, q request, p *stepWriter) (result, error) {
	members := a.body(q)
	maps.Copy(members, a.cfg.ExtraBody)
	text, err := json.Marshal(members)
	if err != nil {
		return result{}, err
	}
	target := strings.TrimSuffix(cmp.Or(a.cfg.BaseURL, defaultBaseURL), "/") + "/" + a.path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(text))
	if err != nil {
		return result{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if a.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+string(a.cfg.Key))
	}
	res, err := a.cfg.Client.Do(req)
	if err != nil {
		return result{}, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body := timedBody{res.Body, idle}
	idle.Start()
	if res.StatusCode >= http.StatusMultipleChoices { // also a redirect, which is not followed
		return result{}, readStatus(res, body)
	}
	// One that ignores that a stream is asked for, or a page of a proxy.
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "application/json" || media == "text/html" {
		if failed := readStatus(res, body); failed.body != (openaistream.Error{}) {
			return result{}, &failed.body
		}
		return result{}, fmt.Errorf("%w: got %s", errMediaType, media)
	}
	whole := res.ContentLength >= 0 || res.ProtoMajor > 1 || len(res.TransferEncoding) > 0 // chunked
	return p.read(ctx, body, whole)
}

var errMediaType = errors.New("response is not text/event-stream")

// readStatus returns the error of a response. A body that cannot be read is no more than a missing message.
func readStatus(res *http.Response, body io.Reader) *statusError {
	text, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes))
	return &statusError{status: res.StatusCode, header: res.Header, body: openaistream.ParseError(text)}
}

// timedBody starts the idle timer of a request again on any data, including comments that servers send as heartbeats.
type timedBody struct {
	io.Reader

	idle *outgoing.Timer
}

func (b timedBody) Read(buf []byte) (int, error) {
	n, err := b.Reader.Read(buf)
	if n > 0 {
		b.idle.Start()
	}
	return n, err
}
