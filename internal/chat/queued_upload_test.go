package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/values"
)

// stored returns the number of bytes in the bucket of large values.
func (u *uploads) stored() (bytes int) {
	u.t.Helper()
	stream := must(u.JS.Stream(u.t.Context(), "OBJ_TR_OBJECTS"))(u.t)
	info := must(stream.Info(u.t.Context(), jetstream.WithSubjectFilter("$O.TR_OBJECTS.C.v.>")))(u.t)
	for subject := range info.State.Subjects {
		bytes += len(must(stream.GetLastMsgForSubject(u.t.Context(), subject))(u.t).Data)
	}
	return bytes
}

// awaitWaiting waits until a number of messages wait.
func (u *uploads) awaitWaiting(n int) {
	u.t.Helper()
	natstest.Eventually(u.t, "the messages that wait", func(ctx context.Context) error {
		all, err := u.Inbox.Queued(ctx, uploaded)
		open := 0
		for _, q := range all {
			if q.Open() {
				open++
			}
		}
		if open != n {
			return cmp.Or(err, fmt.Errorf("%d wait, want %d", open, n))
		}
		return err
	})
}

func uploadWith(mode, id, picture string) string {
	return chatBody(`,"mode":"`+mode+`"`, upload(id, picture))
}

// A message with a large file waits as one with an immediate answer: the file is an object, and its agent gets it. A withdrawn message leaves no byte of its file, and a
// deleted session none of the files of its messages.
func TestQueuedUpload(t *testing.T) {
	for _, end := range []string{"answered", "withdrawn", "deleted"} {
		t.Run(end, func(t *testing.T) {
			u := newUploads(t)
			u.answer()
			first := u.edge.open(http.MethodPost, "", chatBody("", user("u1", "Wait.")), nil)
			<-u.begun
			picture := values.MakeDataURL("image/png", []byte(strings.Repeat("secret", 150<<10)))
			second := u.edge.open(http.MethodPost, "", uploadWith("queue", "u2", picture), nil)
			u.awaitWaiting(1)
			if n := u.stored(); n != 6*150<<10 {
				t.Errorf("%d bytes are stored while the message waits, want the file", n)
			}
			if left := u.sweep(3 * time.Hour); left != 2 {
				t.Errorf("%d pieces after hours of waiting, want the two of the file", left)
			}
			switch end {
			case "answered":
				u.let <- struct{}{}
				if got := first.rest(); !strings.Contains(got, "text-delta(files)") {
					t.Error(got)
				}
				if got := second.rest(); !strings.Contains(got, fmt.Sprintf("text-delta(files %d)", len(picture))) {
					t.Errorf("%.500s", got)
				}
				u.awaitSaved()
				u.awaitNoCommand()
				if left := u.sweep(2 * time.Hour); left != 2 {
					t.Errorf("%d pieces of the file of the answered message, want 2", left)
				}
			case "withdrawn":
				want(t, u.edge.post("/withdraw", `{"messageId":"u2"}`), "204")
				if n := u.stored(); n != 0 {
					t.Errorf("%d bytes of the withdrawn file", n)
				}
				if left := u.sweep(time.Hour); left != 0 {
					t.Errorf("%d pieces are left", left)
				}
			case "deleted":
				if err := u.delete(); err != nil {
					t.Fatal(err)
				}
				if n := u.stored(); n != 0 {
					t.Errorf("%d bytes of the file of a deleted session", n)
				}
			}
		})
	}
}

// A session is deleted between the storing of a file and that of its message, which waits. The message starts the session again, and the agent gets the file.
func TestDeletionBeforeAnUploadWaits(t *testing.T) {
	u := newUploads(t)
	u.answer()
	u.edge.open(http.MethodPost, "", chatBody("", user("u1", "Wait.")), nil)
	<-u.begun
	u.after = sync.OnceValue(u.delete)
	picture := values.MakeDataURL("image/png", []byte(strings.Repeat("secret", 150<<10)))
	got := u.edge.open(http.MethodPost, "", uploadWith("queue", "u2", picture), nil).rest()
	if !strings.Contains(got, fmt.Sprintf("text-delta(files %d)", len(picture))) {
		t.Errorf("%.500s", got)
	}
}

// The file of a message that no worker starts stays as long as its command, and not longer; and so does one whose edge died before the command, in a session that has
// nothing else.
func TestUploadWithoutARecord(t *testing.T) {
	for name, dies := range map[string]bool{"an expired command": false, "an edge that died": true} {
		t.Run(name, func(t *testing.T) {
			u := newUploads(t)
			if dies {
				u.after = func() error { return errors.New("the edge died") }
			}
			picture := values.MakeDataURL("image/png", []byte(strings.Repeat("secret", 150<<10)))
			resp, err := u.edge.try(http.MethodPost, "", chatBody("", upload("u1", picture)), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close() // nothing starts the run
			if !dies {
				if left := u.sweep(2 * time.Hour); left != 2 {
					t.Errorf("%d pieces while the command waits, want 2", left)
				}
				stream := must(u.JS.Stream(t.Context(), "TR_COMMANDS"))(t)
				if err := stream.Purge(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if left := u.sweep(5 * time.Minute); left != 2 {
				t.Errorf("%d pieces within the hour, want 2", left)
			}
			if left := u.sweep(time.Hour); left != 0 {
				t.Errorf("%d pieces are left", left)
			}
		})
	}
}
