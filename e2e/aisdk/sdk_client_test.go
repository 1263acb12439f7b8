//go:build e2e

package aisdk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// sdkClients are the clients of both major versions.
var sdkClients = []*sdkClient{{major: 6}, {major: 7}}

// bothMajors runs a test with each major version.
func bothMajors(t *testing.T, test func(t *testing.T, j *sdkClient)) {
	t.Helper()
	for _, j := range sdkClients {
		t.Run(fmt.Sprintf("ai%d", j.major), func(t *testing.T) {
			j.start(t)
			test(t, j)
		})
	}
}

// sdkClient is a Node process with the packages of one major version. Several
// requests may be in flight.
type sdkClient struct {
	major int

	once sync.Once
	err  error // error of the start
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu      sync.Mutex // guards the fields below and writes to in
	last    int
	waiting map[int]chan<- []byte
	over    error // set when the process has exited
}

// errExited reports that the process exited during a request.
var errExited = errors.New("SDK process exited")

func (j *sdkClient) start(tb testing.TB) {
	tb.Helper()
	j.once.Do(func() { j.err = j.launch() })
	if j.err != nil {
		tb.Fatal(j.err)
	}
}

func (j *sdkClient) launch() error {
	ctx := context.Background()
	program, err := node(ctx)
	if err != nil {
		return err
	}
	home, err := install(ctx, j.major)
	if err != nil {
		return err
	}
	j.cmd = exec.CommandContext(ctx, program, "sdk_client.mjs", home)
	j.cmd.Stderr = os.Stderr
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	j.waiting, j.done = make(map[int]chan<- []byte), make(chan struct{})
	if err := j.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(j.done)
		j.listen(out)
	}()
	return nil
}

// listen dispatches responses to the waiting requests until the process exits.
func (j *sdkClient) listen(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var head struct {
			ID int `json:"id"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			break
		}
		j.mu.Lock()
		if reply, ok := j.waiting[head.ID]; ok {
			reply <- line
			delete(j.waiting, head.ID)
		}
		j.mu.Unlock()
	}
	err := j.cmd.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = fmt.Errorf("%w: %w", errExited, errors.Join(err, io.EOF))
	for _, reply := range j.waiting {
		close(reply)
	}
	clear(j.waiting)
}

func (j *sdkClient) stop() {
	if j.done == nil {
		return
	}
	_ = j.in.Close() // the process exits when its standard input ends
	select {
	case <-j.done:
	case <-time.After(10 * time.Second):
		_ = j.cmd.Process.Kill()
		<-j.done
	}
}

// ask sends one request and decodes the response into answer.
func (j *sdkClient) ask(tb testing.TB, op string, request map[string]any, answer any) {
	tb.Helper()
	if err := j.tryAsk(op, request, answer); err != nil {
		tb.Fatalf("ai%d: %s: %v", j.major, op, err)
	}
}

func (j *sdkClient) tryAsk(op string, request map[string]any, answer any) error {
	reply := make(chan []byte, 1)
	line, err := j.post(op, request, reply)
	if err != nil {
		return err
	}
	select {
	case text, ok := <-reply:
		if !ok {
			return fmt.Errorf("%w during %.400s", errExited, line)
		}
		var fault struct {
			Fault string `json:"fault"`
		}
		if err := errors.Join(json.Unmarshal(text, &fault), json.Unmarshal(text, answer)); err != nil {
			return err
		}
		if fault.Fault != "" {
			return errors.New(fault.Fault)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("timeout: no response within a minute to %.400s", line)
	}
}

func (j *sdkClient) post(op string, request map[string]any, reply chan<- []byte) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over != nil {
		return nil, j.over
	}
	j.last++
	whole := map[string]any{"id": j.last, "op": op}
	maps.Copy(whole, request)
	line, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	j.waiting[j.last] = reply
	_, err = j.in.Write(append(line, '\n'))
	return line, err
}

// foldResult is the result of the parser and the builder for one response.
type foldResult struct {
	Chunks     []string        `json:"chunks"`     // types of the valid chunks
	Errors     []string        `json:"errors"`     // "AI_TypeValidationError: …"; the first ends the stream
	Message    json.RawMessage `json:"message"`    // last state, null for none
	Difference string          `json:"difference"` // from the wanted message, "" for none
}

// folding is a response to fold into a message.
type folding struct {
	earlier  []response // earlier responses of the same message
	body     []byte
	want     []byte // JSON of the wanted message, nil for any
	portable bool   // the stream may lack decisions about approvals
}

// response is a complete response and the user's answers to it.
type response struct {
	body    []byte
	answers []answer
}

func (r response) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"body": r.body, "answers": r.answers})
}

// answer is the change that a page applies itself before it posts it.
type answer struct {
	ToolCallID string   `json:"toolCallId"`
	Approved   *bool    `json:"approved,omitempty"`
	Reason     *string  `json:"reason,omitempty"`
	Output     verbatim `json:"output,omitempty"`
	ErrorText  *string  `json:"errorText,omitempty"`
}

func (j *sdkClient) fold(tb testing.TB, f folding) foldResult {
	tb.Helper()
	request := map[string]any{"body": append([]byte{}, f.body...), "earlier": f.earlier, "portable": f.portable}
	if f.want != nil {
		request["want"] = verbatim(f.want)
	}
	var v foldResult
	j.ask(tb, "fold", request, &v)
	return v
}

// check returns the errors of the SDK's validation of messages.
func (j *sdkClient) check(tb testing.TB, messages []verbatim) []string {
	tb.Helper()
	var v foldResult
	j.ask(tb, "check", map[string]any{"messages": messages}, &v)
	return v.Errors
}

// verbatim is JSON that encoding/json does not change: numbers and unpaired
// surrogates are kept.
type verbatim []byte

func (v verbatim) MarshalJSON() ([]byte, error) { return v, nil }

// sse returns a body with these chunks and the end mark. [DONE] and lines that
// begin with a colon or a field name are written unchanged.
func sse(chunks ...string) []byte {
	var b strings.Builder
	for _, c := range append(chunks, "[DONE]") {
		if strings.HasPrefix(c, "{") || c == "[DONE]" {
			c = "data: " + c
		}
		b.WriteString(c + "\n\n")
	}
	return []byte(b.String())
}
