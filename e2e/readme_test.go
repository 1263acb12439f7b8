//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

// TestReadmeCommands runs the commands of README as they are written, but for the addresses. A command that the test does not know fails.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	route := httptest.NewServer(http.HandlerFunc(answerInTwoParts))
	t.Cleanup(route.Close)
	dir := t.TempDir()
	u := newUp(t, "--demo", "0.3")
	u.start(t)
	ran := 0
	for _, box := range regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(box[1]) {
			command := strings.TrimSpace(regexp.MustCompile(`\s# .*`).ReplaceAllString(line, ""))
			ran++
			switch name, rest, _ := strings.Cut(command, " "); {
			case name == "make":
				if !strings.Contains(string(makefile), "\n"+rest+":") {
					t.Errorf("the Makefile has no target for %q", command)
				}
			case strings.Contains(command, "--json"):
				out, end := shell(t, dir, strings.ReplaceAll(command, "localhost:4480", u.listen))
				natstest.Eventually(t, "the answer begins", func(context.Context) error {
					if !strings.Contains(out.String(), `"text-delta"`) {
						return fmt.Errorf("%s: %.500s", command, out)
					}
					return nil
				})
				end() // as Ctrl-C does
			case strings.HasSuffix(command, "/stream"):
				out, _ := shell(t, dir, strings.ReplaceAll(command, "localhost:4480", u.listen))
				natstest.Eventually(t, "the answer ends", func(context.Context) error {
					if !strings.Contains(out.String(), `"type":"finish"`) {
						return fmt.Errorf("%s: %.500s", command, out)
					}
					return nil
				})
			case name == "echo":
				run := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "http://127.0.0.1:3000", route.URL))
				run.Dir = dir
				if out, err := run.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
			case strings.HasPrefix(command, "tailrace up "):
				own := newUp(t, strings.Fields(strings.ReplaceAll(strings.TrimPrefix(command, "tailrace up "), "agents.json", filepath.Join(dir, "agents.json")))...)
				own.start(t)
				resp, err := http.Post(own.url+"/api/chat/parcel", "application/json", strings.NewReader(`{"text":"Where is my parcel?"}`))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close() // it was read
				if err != nil || !strings.Contains(string(answer), "It is in") || !strings.Contains(string(answer), "Oslo") {
					t.Errorf("%s: status %d, %v: %s", command, resp.StatusCode, err, answer)
				}
			default:
				t.Errorf("README has a command that is not tested: %s", command)
			}
		}
	}
	if ran < 5 {
		t.Errorf("%d commands, want at least 5", ran)
	}
	http.DefaultClient.CloseIdleConnections()
}

// shell starts a command line; end kills it.
func shell(t *testing.T, dir, line string) (out *outputtest.Buffer, end func()) {
	t.Helper()
	out = new(outputtest.Buffer)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // it was killed, or its output tells
	}()
	end = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
	}
	t.Cleanup(end)
	return out, end
}

// answerInTwoParts is a chat route in the protocol of the AI SDK.
func answerInTwoParts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	for _, part := range []string{
		`{"type":"start"}`, `{"type":"start-step"}`, `{"type":"text-start","id":"t1"}`, `{"type":"text-delta","id":"t1","delta":"It is in "}`,
		`{"type":"text-delta","id":"t1","delta":"Oslo."}`, `{"type":"text-end","id":"t1"}`, `{"type":"finish-step"}`, `{"type":"finish"}`, `[DONE]`,
	} {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", part) // the worker may have gone
	}
}
