package control_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/names"
)

// TestAnswerWithAMemberTwice reads stored answers that have two members of one name: they are malformed, whichever one a reader would take.
func TestAnswerWithAMemberTwice(t *testing.T) {
	s := chunk.RootSession("acme", "s1")
	key, err := names.InboxAnswerKey(s, "run-1", "c1")
	if err != nil {
		t.Fatal(err)
	}
	good := `{"version":1,"kind":"approval-response","toolCallId":"c1","toolName":"t","approvalId":"run-1::c1","approved":false,"at":1}`
	if a, err := control.DecodeAnswer(s, "run-1", key, []byte(good)); err != nil || a.Approved {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, more := range []string{`"approved":true,`, `"\u0061pproved":true,`, `"toolCallId":"c1",`} {
		data := strings.Replace(good, `"at"`, more+`"at"`, 1)
		if a, err := control.DecodeAnswer(s, "run-1", key, []byte(data)); !errors.Is(err, control.ErrMalformed) {
			t.Errorf("%s: %+v, %v; want that it is malformed", data, a, err)
		}
	}
}
