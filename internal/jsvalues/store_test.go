package jsvalues_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/producers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var s1 = chunk.RootSession("default", "s1")

// env is a server, a writer and an edge.
type env struct {
	*stack.Stack

	t      *testing.T
	server *httptest.Server
	eraser *retention.Eraser
	writer *producers.Producer
}

func newEnv(t *testing.T, cfg producers.Config) *env {
	t.Helper()
	w := &env{t: t, Stack: stack.Start(t, stack.Options{})}
	w.writer = w.NewWriter(cfg)
	store, err := jssnapshots.New(w.NewProcess(natsauth.Projector).JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if w.eraser, err = retention.NewEraser(w.NewProcess(natsauth.Projector).JS, store, retention.EraserConfig{}); err != nil {
		t.Fatal(err)
	}
	views, err := view.New(view.Config{Views: map[string]view.View{
		"public": {Preset: view.Public},
		"masked": {Preset: view.Analytics},
		"part":   {Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{chunk.TypeToolEnd: {"result.secret"}, chunk.TypeSubagentEnd: {"result.secret"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	reader := stack.NewClients(t, w.NewProcess(natsauth.Edge).JS)
	edge, err := httpedge.New(reader.Log, reader.Reader, httpedge.Config{Authenticator: authtest.None(t, "default"), Views: views})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- edge.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.server = httptest.NewServer(edge)
	t.Cleanup(w.server.Close)
	return w
}

func (w *env) start(s chunk.Session) *producers.Run {
	w.t.Helper()
	r, err := w.writer.Start(w.t.Context(), s, chunk.RunStarted{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *env) write(r *producers.Run, bodies ...chunk.Body) {
	w.t.Helper()
	for _, b := range bodies {
		if _, err := r.Write(w.t.Context(), chunk.Chunk{Body: b}); err != nil {
			w.t.Fatalf("%s: %v", chunk.Chunk{Body: b}.Type(), err)
		}
	}
}

// get requests a page of the edge.
func (w *env) get(method, path string, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.server.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	got := httptest.NewRecorder()
	maps.Copy(got.Header(), resp.Header)
	got.Code = resp.StatusCode
	if _, err := io.Copy(got.Body, resp.Body); err != nil {
		w.t.Errorf("%s: %v", path, err)
	}
	return got
}

// objects returns the number of pieces in the bucket.
func (w *env) objects() uint64 {
	w.t.Helper()
	stream, err := w.JS.Stream(w.t.Context(), "OBJ_TR_OBJECTS")
	if err != nil {
		w.t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// large returns a JSON value of about a number of bytes with more members than a chunk may have.
func large(size int) chunk.Value {
	return chunk.Value(`{"secret":[0` + strings.Repeat(",1", size/2) + `]}`)
}

// The result of a tool that is larger than a message is a reference in the log and in the snapshot. Clients read it at the edge, or inline, and the deletion of its
// session removes it.
func TestLargeResult(t *testing.T) {
	w := newEnv(t, producers.Config{})
	result := large(600 << 10)
	r := w.start(s1)
	w.write(r, chunk.ToolStart{ToolCallID: "c1", ToolName: "rows", Arguments: chunk.Value(`{}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "rows", Result: result, ProviderExecuted: new(true)})
	if err := r.End(t.Context(), large(700<<10)); err != nil {
		t.Fatal(err)
	}
	end, ok := chunk.As[chunk.ToolEnd](w.Chunks(s1)[2])
	var ref struct {
		Key       string `json:"tailraceValue"`
		Bytes     int    `json:"bytes"`
		MediaType string `json:"mediaType"`
		URL       string `json:"url"`
	}
	if err := json.Unmarshal(end.Result, &ref); err != nil || !ok || ref.Bytes != len(result) || ref.MediaType != "application/json" || len(end.Result) > 500 {
		t.Fatalf("result %.500s (%v), want a reference", end.Result, err)
	}
	if got := w.get(http.MethodGet, ref.URL); got.Code != http.StatusOK || got.Body.String() != string(result) || got.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s: %d %s with %d bytes, want the result", ref.URL, got.Code, got.Header(), got.Body.Len())
	}
	if got := w.get(http.MethodHead, ref.URL); got.Code != http.StatusOK || got.Header().Get("Content-Length") != fmt.Sprint(len(result)) || got.Body.Len() > 0 {
		t.Errorf("HEAD: %d %s", got.Code, got.Header())
	}
	if got := w.get(http.MethodGet, ref.URL, "Range", "bytes=0-9"); got.Code != http.StatusPartialContent || got.Body.String() != string(result[:10]) {
		t.Errorf("range: %d %.50q", got.Code, got.Body)
	}
	other := values.URL(chunk.RootSession("default", "s2"), values.Key{})
	for name, path := range map[string]string{
		"of another session": strings.Replace(ref.URL, "/s1/", "/s2/", 1), "of another type": strings.Replace(ref.URL, "tool_end", "custom", 1),
		"in the view of users": ref.URL + "?view=public", "in a view that hides a part": ref.URL + "?view=part",
		"in a view that masks the member": ref.URL + "?view=masked", "of no value": other,
	} {
		if got := w.get(http.MethodGet, path); got.Code != http.StatusNotFound || !strings.Contains(got.Body.String(), "VALUE_NOT_FOUND") {
			t.Errorf("value %s: %d %.100s, want 404", name, got.Code, got.Body)
		}
	}
	pages := map[string]string{"snapshot": "/v1/sessions/s1/snapshot?", "messages": "/v1/sessions/s1/messages?", "events": "/v1/sessions/s1/events?"}
	for name, path := range pages {
		accept := []string{"Accept", "*/*"}
		if got := w.get(http.MethodGet, path, accept...).Body.Bytes(); bytes.Contains(got, result) || !bytes.Contains(got, []byte(ref.Key)) {
			t.Errorf("%s: %.2000s, want the reference", name, got)
		}
		if got := w.get(http.MethodGet, path+"inline=1048576", accept...).Body.Bytes(); !bytes.Contains(got, result) {
			t.Errorf("%s inline: %.2000s, want the result", name, got)
		}
		if got := w.get(http.MethodGet, path+"inline=1000", accept...).Body.Bytes(); bytes.Contains(got, result) || !bytes.Contains(got, []byte(ref.Key)) {
			t.Errorf("%s inline up to 1000: want the reference", name)
		}
		for _, view := range []string{"public", "part"} {
			if got := w.get(http.MethodGet, path+"inline=1048576&view="+view, accept...).Body.Bytes(); bytes.Contains(got, result) {
				t.Errorf("%s inline in the view %s has the result", name, view)
			}
		}
		if got := w.get(http.MethodGet, path+"inline=1048576&view=masked", accept...).Body.Bytes(); bytes.Contains(got, []byte(ref.Key)) || bytes.Contains(got, result) || !bytes.Contains(got, []byte(`{"tailraceValue":"•"`)) {
			t.Errorf("%s inline in a view that masks the result: %.2000s, want a reference without its key", name, got)
		}
	}
	// A result is a text of JSON in AG-UI.
	for _, path := range []string{"/v1/sessions/s1/events?dialect=agui", "/v1/sessions/s1/snapshot?dialect=agui"} {
		quoted, err := json.Marshal(string(result))
		if err != nil {
			t.Fatal(err)
		}
		if got := w.get(http.MethodGet, path+"&inline=1048576", "Accept", "*/*").Body.Bytes(); !bytes.Contains(got, append([]byte(`"content":`), quoted...)) {
			t.Errorf("%s inline: %.2000s, want the result", path, got)
		}
		if got := w.get(http.MethodGet, path+"&inline=1000", "Accept", "*/*").Body.Bytes(); bytes.Contains(got, quoted[1:len(quoted)-1]) || !bytes.Contains(got, []byte(ref.Key)) {
			t.Errorf("%s inline up to 1000: want the reference", path)
		}
		for _, view := range []string{"public", "part", "masked"} {
			if got := w.get(http.MethodGet, path+"&inline=1048576&view="+view, "Accept", "*/*").Body.Bytes(); bytes.Contains(got, quoted[1:len(quoted)-1]) {
				t.Errorf("%s inline in the view %s has the result", path, view)
			}
		}
	}
	if n := w.objects(); n != 4 {
		t.Errorf("%d pieces, want two of the result and two of the output", n)
	}
	if err := w.eraser.Delete(t.Context(), s1); err != nil {
		t.Fatal(err)
	}
	if n := w.objects(); n != 0 {
		t.Errorf("%d pieces after the deletion, want none", n)
	}
	if got := w.get(http.MethodGet, ref.URL); got.Code != http.StatusNotFound {
		t.Errorf("value of a deleted session: %d, want 404", got.Code)
	}
}
