package row

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestColumns(t *testing.T) {
	cost, at := Money(5), time.Unix(1, 0).UTC()
	row := Observation{Place: Place{Tenant: "acme", Seq: 7}, Kind: Tool, Cost: &cost, StartTime: at, EndTime: &at, Input: `{"a":1}`}
	got := map[string]any{}
	for _, c := range Columns[Observation]() {
		if v := c.Value(reflect.ValueOf(row)); v != nil && v != "" && v != int64(0) && v != int32(0) && v != false {
			got[c.Name] = v
		}
	}
	want := map[string]any{
		"tenant": "acme", "seq": int64(7), "kind": "tool", "cost": cost, "start_time": at, "end_time": at, "input": JSON(`{"a":1}`), "stored_at": time.Time{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	optional := map[string]bool{}
	for _, c := range Columns[Gap]() {
		optional[c.Name] = c.Optional
	}
	if !optional["detail"] || !optional["from_seq"] || optional["reason"] || optional["from_ordinal"] {
		t.Errorf("optional columns are %v", optional)
	}
}
