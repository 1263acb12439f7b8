package retention

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

func TestConfigNamesTheField(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	bad := subjects.Layout{Partitions: -1}
	for want, errs := range map[string][]error{
		"Layout: Partitions is -1": {
			errOf(NewEraser(js, nil, EraserConfig{Layout: bad})),
			errOf(NewDeadLetters(js, DeadLetterConfig{Layout: bad})), errOf(NewLease(js, LeaseConfig{Layout: bad, Name: "x", Interval: 1})),
		},
		"Name: ":       {errOf(NewLease(js, LeaseConfig{Name: "two.tokens", Interval: 1}))},
		"Interval is ": {errOf(NewLease(js, LeaseConfig{Name: "x"}))},
	} {
		for i, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%d: %v, want %q", i, err, want)
			}
		}
	}
}

func errOf[T any](_ T, err error) error { return err }
