package jsreader

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
)

func TestNewLeaderMayBeBehindForAWhile(t *testing.T) {
	b := position{created: time.Unix(1, 0), seq: 10}
	state := jsclient.State{Created: time.Unix(1, 0), Last: 8, Replicas: 3}
	if err := b.compare(context.Background(), nil, "S", state); err == nil || errors.Is(err, ErrRecreated) {
		t.Errorf("a leader that is behind: err = %v, want a retry", err)
	}
	b.behindSince = time.Now().Add(-2 * newLeaderGrace)
	if err := b.compare(context.Background(), nil, "S", state); !errors.Is(err, ErrRecreated) {
		t.Errorf("a leader that stays behind: err = %v, want ErrRecreated", err)
	}
	state.Last = 10
	if err := b.compare(context.Background(), nil, "S", state); err != nil || !b.behindSince.IsZero() {
		t.Errorf("a leader that has caught up: err = %v", err)
	}
	state.Created = time.Unix(2, 0)
	if err := b.compare(context.Background(), nil, "S", state); !errors.Is(err, ErrRecreated) {
		t.Errorf("another stream: err = %v, want ErrRecreated", err)
	}
}

func TestServerTooOld(t *testing.T) {
	for version, want := range map[string]bool{"2.9.1": true, "2.13.0": true, "2.14.0": false, "2.15.2": false, "3.0.0": false, "": false, "dev": false} {
		if serverTooOld(version) != want {
			t.Errorf("%q: %v, want %v", version, !want, want)
		}
	}
}
