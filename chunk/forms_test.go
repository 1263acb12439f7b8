package chunk_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// A value of another form in a member that the schema got later neither fails the chunk nor becomes the member: it is kept as it is.
func TestOtherForms(t *testing.T) {
	long := `"` + strings.Repeat("m", 1<<20) + `"`
	labels := []string{`17`, `null`, `{"id":"m"}`, `"a\nb"`, `"\u0000"`, long, `"` + strings.Repeat("é", 129) + `"`}
	tests := []struct {
		typ, member, usage string
		values             []string
	}{
		{"step_start", "startedAt", "", []string{`"1"`, `1.5`, `-1`, `1e12`, `253402300800000`, `9007199254740993`, `null`, `[]`}},
		{"step_end", "model", "", labels},
		{"step_end", "requestModel", "", labels},
		{"step_end", "provider", "", labels},
		{"run_started", "model", "", labels},
		{"run_started", "provider", "", labels},
		{"step_end", "reasoningTokens", "usage", []string{`"17"`, `null`, `{}`, `1e999`, `-1e999`, `true`}},
		{"step_end", "cost", "usage", []string{`0.25`, `"-1"`, `"1e999"`, `"1e-3"`, `"NaN"`, `"1."`, `".5"`, `""`, `"0x1"`, `"1,5"`, `"1234567890"`, `"0.1234567890123456789"`, `null`, long}},
		{"step_end", "currency", "usage", labels},
	}
	for _, tt := range tests {
		required := map[string]string{"run_started": `,"runId":"r","epoch":1,"mode":"execute","input":[]`}[tt.typ]
		for _, v := range tt.values {
			text := `{"type":"` + tt.typ + `",` + base + required + `,"` + tt.member + `":` + v + `}`
			if tt.usage != "" {
				text = `{"type":"` + tt.typ + `",` + base + `,"usage":{"inputTokens":1,"outputTokens":2,"` + tt.member + `":` + v + `}}`
			}
			c, err := chunk.Decode([]byte(text))
			if err != nil {
				t.Errorf("%s %s %.50s: %v", tt.typ, tt.member, v, err)
				continue
			}
			extra := c.Extra
			if end, ok := c.Body.(chunk.StepEnd); ok && end.Usage != nil {
				extra = end.Usage.Extra
			}
			if len(extra) != 1 || extra[0].Name != tt.member || string(extra[0].Value) != v {
				t.Errorf("%s %s %.50s: extra members %.100v", tt.typ, tt.member, v, extra)
			}
			var members chunk.Members
			if err := members.Read([]byte(text)); err != nil {
				t.Errorf("%s %s %.50s: %v", tt.typ, tt.member, v, err)
			}
			written, err := c.AppendJSON(nil)
			if err != nil || !sameJSON(mustParse(t, written), mustParse(t, []byte(text))) {
				t.Errorf("%s %s %.50s: written as %.200s, %v", tt.typ, tt.member, v, written, err)
			}
		}
	}
}

func TestUnwritableForms(t *testing.T) {
	usage := func(u chunk.Usage) chunk.StepEnd {
		u.InputTokens, u.OutputTokens = "1", "2"
		return chunk.StepEnd{Usage: &u}
	}
	for _, tt := range []struct {
		field string
		body  chunk.Body
	}{
		{"startedAt", chunk.StepStart{StartedAt: new(int64(-1))}},
		{"startedAt", chunk.StepStart{StartedAt: new(int64(chunk.MaxTimestamp + 1))}},
		{"model", chunk.StepEnd{Model: new(strings.Repeat("m", chunk.MaxLabel+1))}},
		{"model", chunk.StepEnd{Model: new("\xff")}},
		{"requestModel", chunk.StepEnd{RequestModel: new("a\tb")}},
		{"provider", chunk.RunStarted{RunID: "r", Provider: new("\x7f")}},
		{"usage/reasoningTokens", usage(chunk.Usage{ReasoningTokens: new(chunk.Number("1e999"))})},
		{"usage/cost", usage(chunk.Usage{Cost: new("1e999")})},
		{"usage/cost", usage(chunk.Usage{Cost: new("")})},
		{"usage/cost", usage(chunk.Usage{Cost: new("0.5"), Extra: []chunk.Member{{Name: "cost", Value: chunk.Value("0.5")}}})},
		{"usage/cost", usage(chunk.Usage{Extra: []chunk.Member{{Name: "cost", Value: chunk.Value(`"0.5"`)}}})},
	} {
		if err := chunktest.Of(tt.body).Validate(); err == nil || !strings.Contains(err.Error(), tt.field+": ") && !strings.Contains(err.Error(), tt.field+" ") {
			t.Errorf("%#v: %v, want an error of %s", tt.body, err, tt.field)
		}
	}
}

func TestLabelOf(t *testing.T) {
	for s, want := range map[string]*string{
		"gpt-5": new("gpt-5"), "": nil, "a\nb": nil, "\xff": nil, strings.Repeat("é", 128): new(strings.Repeat("é", 128)), strings.Repeat("é", 129): nil,
	} {
		if got := chunk.LabelOf(s); !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestCostOf(t *testing.T) {
	for n, want := range map[chunk.Number]string{
		"0": "0", "-0": "0", "0.00001425": "0.00001425", "1.425e-05": "0.00001425", "1E2": "100", "0.1234567890123456789": "0.12345678901234568",
		"5e-324": "0.000000000000000000", "999999999.5": "999999999.5",
		"-1": "", "-1e-9": "", "1e999": "", "1e9": "", "1234567890": "", "": "", "NaN": "", "0x1": "", "Infinity": "", "1_0": "", `"1"`: "",
	} {
		got := chunk.CostOf(n)
		if want == "" && got == nil {
			continue
		}
		if got == nil || *got != want {
			t.Errorf("%q is %v, want %q", n, got, want)
			continue
		}
		if err := chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "1", OutputTokens: "1", Cost: got}}).Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestModel(t *testing.T) {
	long := strings.Repeat("m", chunk.MaxLabel+1)
	for m, want := range map[chunk.Model]chunk.StepEnd{
		{}: {},
		{Name: "gpt-5-2025-08-07", Requested: "gpt-5", Provider: "openai"}: {Model: new("gpt-5-2025-08-07"), RequestModel: new("gpt-5"), Provider: new("openai")},
		{Name: "gpt-5", Requested: "gpt-5"}:                                {Model: new("gpt-5")},
		{Requested: "gpt-5"}:                                               {Model: new("gpt-5")},
		{Name: long, Requested: "gpt-5", Provider: "a\nb"}:                 {Model: new("gpt-5")},
		{Name: "gpt-5", Requested: long}:                                   {Model: new("gpt-5")},
	} {
		end := chunk.StepEnd{}
		if m.AddTo(&end); !reflect.DeepEqual(end, want) {
			t.Errorf("%.100v: %+v", m, end)
		}
	}
}
