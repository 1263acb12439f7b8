//go:build e2e && record

package compat

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const archiveFile = "testdata/store.tar.zst"

// Sessions that are continued when the store is opened.
const (
	openCall     = "open-call"     // has an open call of a browser tool
	openApproval = "open-approval" // has an open approval request
	queued       = "queued"        // has a queued command of the demo agent
	queuedChat   = "queued-chat"   // has a queued command of the assistant
	deleted      = "gone-session"
	durable      = "ledger" // firehose that was stopped in the middle of the log
)

// recorded is the answers recorded from the data directory.
type recorded struct {
	Answers []exchange `json:"answers"`
	Handled []string   `json:"handled"` // by the durable firehose before it was stopped
	Rest    []string   `json:"rest"`    // records it has not acknowledged
}

type exchange struct {
	Ask    ask    `json:"ask"`
	Answer answer `json:"answer"`
}

// This build reads the recorded data directory as the recording build did, and finishes its open work.
func TestRecordedStore(t *testing.T) {
	dir, want := openStore(t)
	w := startEnv(t, binary(t), dir)
	w.compare(t, want)
	w.continueWork(t, want)
}

// compare repeats all recorded requests.
func (w *env) compare(t *testing.T, want recorded) {
	t.Helper()
	failed := 0
	for _, x := range want.Answers {
		got := w.ask(t, x.Ask)
		if difference := diff(got, x.Answer); difference != "" {
			t.Errorf("%s: %s", x.Ask, difference)
			if failed++; failed == 20 {
				t.Fatal("there may be more differences")
			}
		}
	}
	t.Logf("%d answers compared", len(want.Answers))
	// As text; the lines for each session are compared above.
	if got := w.ask(t, ask{Args: []string{"verify", "--all"}}); got.Code != 0 {
		t.Errorf("verify: exit code %d: %s", got.Code, got.Body)
	}
}

// continueWork continues the open work in the store: the firehose, the calls, the queue.
func (w *env) continueWork(t *testing.T, want recorded) {
	t.Helper()
	count := func(n int) func([]string) bool { return func(lines []string) bool { return len(lines) >= n } }
	if difference := firstLine(w.firehose(t, count(len(want.Rest)), "--durable", durable, "--ack", "written"), want.Rest); difference != "" {
		t.Errorf("the durable firehose: %s", difference)
	}
	all := append(slices.Clone(want.Handled), want.Rest...)
	slices.SortStableFunc(all, bySession)
	if difference := firstLine(w.firehose(t, count(len(all))), all); difference != "" {
		t.Errorf("the firehose from the start: %s", difference)
	}

	workers := []*process{w.assistant(t), w.start(t, "worker", "TAILRACE_DEMO=0")}
	w.reply(t, openCall, `"result":"in Oslo"`)
	w.reply(t, openApproval, `"kind":"approval-response","approved":true`)
	for session, says := range map[string]string{openCall: "It came to", openApproval: "It came to", queued: "delete_drafts", queuedChat: "An answer to: "} {
		if page := w.await(t, session, "ended"); !strings.Contains(page.text, says) {
			t.Errorf("%s lacks %q: %s", session, says, page.text)
		}
	}
	for _, worker := range workers {
		worker.stop(t)
	}
	w.awaitSaved(t)
}

// snapshot is the part of a snapshot that the tests use.
type snapshot struct {
	Status         string      `json:"status"`
	StreamSequence json.Number `json:"streamSequence"`
	PendingCalls   []struct {
		ToolCallID string `json:"toolCallId"`
		ApprovalID string `json:"approvalId"`
	} `json:"pendingCalls"`
	CheckpointID string `json:"checkpointId"`

	text string
}

func (w *env) snapshot(t *testing.T, session string) (s snapshot, err error) {
	t.Helper()
	got := w.ask(t, ask{Path: "/v1/sessions/" + session + "/snapshot"})
	if got.Code != http.StatusOK {
		return s, fmt.Errorf("%d %s", got.Code, got.Body)
	}
	s.text = got.Body
	err = json.Unmarshal([]byte(got.Body), &s)
	return s, err
}

// await waits until a session has a status.
func (w *env) await(t *testing.T, session, status string) (s snapshot) {
	t.Helper()
	natstest.Eventually(t, session+" to be "+status, func(context.Context) (err error) {
		if s, err = w.snapshot(t, session); err == nil && s.Status != status {
			err = errors.New(s.Status)
		}
		return err
	})
	return s
}

// awaitSaved waits until the projector has saved all sessions, and all snapshots match the log.
func (w *env) awaitSaved(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, "the projector", func(context.Context) error {
		got := w.ask(t, ask{Args: []string{"verify", "--all", "--json"}})
		if got.Code != 0 || strings.Contains(got.Body, `"unsaved"`) {
			return fmt.Errorf("%d %s", got.Code, got.Body)
		}
		return nil
	})
}

// reply answers the pending call of a session.
func (w *env) reply(t *testing.T, session, members string) {
	t.Helper()
	s := w.await(t, session, "paused")
	if len(s.PendingCalls) != 1 {
		t.Fatalf("%s has pending calls %v, want one", session, s.PendingCalls)
	}
	if id := s.PendingCalls[0].ApprovalID; id != "" {
		members += fmt.Sprintf(`,"approvalId":%q`, id)
	}
	w.post(t, "/api/chat/"+session+"/answers", fmt.Sprintf(`{"toolCallId":%q,%s}`, s.PendingCalls[0].ToolCallID, members), http.StatusNoContent)
}

func diff(got, want answer) string {
	got, want = normalized(got), normalized(want)
	if got.Code != want.Code {
		return fmt.Sprintf("code is %d, want %d: %.200s", got.Code, want.Code, got.Body)
	}
	for name := range want.Header {
		if !slices.Equal(got.Header[name], want.Header[name]) {
			return fmt.Sprintf("header %s is %q, want %q", name, got.Header[name], want.Header[name])
		}
	}
	if len(got.Header) != len(want.Header) {
		return fmt.Sprintf("headers are %v, want %v", got.Header, want.Header)
	}
	return firstLine(slices.Collect(strings.Lines(got.Body)), slices.Collect(strings.Lines(want.Body)))
}

// normalized returns a without intended differences between builds: the framing of the HTTP body, which is compared itself, and the positions of hidden records within a stream, which depend on the size of the frames in memory.
func normalized(a answer) answer {
	if frames := strings.Split(a.Body, "\n\n"); len(frames) > 1 {
		isID := func(frame string) bool {
			frame = strings.TrimSpace(frame)
			return strings.HasPrefix(frame, "id: ") && !strings.Contains(frame, "\n")
		}
		last := len(frames) - 2 // the position at the end counts
		a.Body = strings.Join(slices.Concat(slices.DeleteFunc(frames[:last:last], isID), frames[last:]), "\n\n")
	}
	a.Header = maps.Clone(a.Header)
	delete(a.Header, "Content-Length")
	return a
}

// firstLine returns the first difference between lines, or "".
func firstLine(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if a, b := got[i], want[i]; a != b {
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			from := max(0, at-40)
			return fmt.Sprintf("line %d differs at byte %d: …%.120q, want …%.120q", i+1, at, a[from:], b[from:])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d lines, want %d", len(got), len(want))
	}
	return ""
}

// openStore unpacks the archive.
func openStore(t *testing.T) (dir string, want recorded) {
	t.Helper()
	file, err := os.Open(archiveFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir = t.TempDir()
	if err := unpack(file, dir, &want); err != nil {
		t.Fatalf("%s: %v", archiveFile, err)
	}
	return dir, want
}

const answersName = "answers.json"

func unpack(in io.Reader, dir string, want *recorded) error {
	decoder, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer decoder.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(decoder); ; {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case header.Name == answersName:
			if err := json.NewDecoder(files).Decode(want); err != nil {
				return err
			}
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(header.Name), 0o750), root.WriteFile(header.Name, data, 0o600)); err != nil {
			return err
		}
	}
}

// maxWindow is as large as the archive, because answers repeat each other.
const maxWindow = 128 << 20

func pack(dir string, want recorded) ([]byte, error) {
	var packed bytes.Buffer
	encoder, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(maxWindow))
	if err != nil {
		return nil, err
	}
	files := tar.NewWriter(encoder)
	add := func(name string, data []byte) error {
		err := files.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600, Format: tar.FormatPAX})
		if err == nil {
			_, err = files.Write(data)
		}
		return err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "tailrace.lock" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return add(filepath.ToSlash(name), data)
	})
	answers, jsonErr := json.Marshal(want)
	err = errors.Join(err, jsonErr, add(answersName, answers), files.Close(), encoder.Close())
	return packed.Bytes(), err
}
