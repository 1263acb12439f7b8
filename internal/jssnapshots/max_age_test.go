package jssnapshots

import (
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// The age of snapshots is read from the bucket each time, so that an operator can edit it. A bucket without one keeps snapshots.
func TestMaxAge(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{Snapshots: topology.Limits{MaxAge: 100 * time.Hour}}); err != nil {
		t.Fatal(err)
	}
	st, err := New(js, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if age, err := st.MaxAge(t.Context()); err != nil || age != 100*time.Hour {
		t.Errorf("created: %s, %v", age, err)
	}
	for text, want := range map[string]time.Duration{"200h": 200 * time.Hour, "0s": 0, "": 0, "soon": -1, "-1h": -1} {
		stream, err := js.Stream(t.Context(), "KV_TR_SNAPSHOTS")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.Metadata[jsclient.MaxAgeKey] = text
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		switch age, err := st.MaxAge(t.Context()); {
		case want < 0 && (err == nil || !strings.Contains(err.Error(), "want a duration such as 2160h, or 0s (unlimited)")):
			t.Errorf("%q: err = %v", text, err)
		case want >= 0 && (err != nil || age != want):
			t.Errorf("%q: %s, %v; want %s", text, age, err, want)
		}
	}
}
