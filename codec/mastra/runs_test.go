package mastra

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The chunks for each chunk of the recorded runs, and for the ends of their responses. A chunk of a sub-agent has its session in front.
func TestRecordedRuns(t *testing.T) {
	const golden = "testdata/runs.txt"
	var got bytes.Buffer
	fmt.Fprintln(&got, "Each chunk of the recorded runs, and what it becomes. Written by go test -update.")
	for _, r := range runs(t) {
		fmt.Fprintf(&got, "\n%s\n", r.Name)
		for _, s := range translate(t, r) {
			fmt.Fprintf(&got, "  %-31s", label(s.raw))
			for _, c := range s.chunks {
				fmt.Fprint(&got, " ", describe(c))
			}
			got.Truncate(len(bytes.TrimRight(got.Bytes(), " ")))
			fmt.Fprintln(&got)
		}
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

func label(raw []byte) string {
	if raw == nil {
		return "(end)"
	}
	m := dialect.Read(raw)
	kind, _ := m.Text("type")
	if inner, ok := m.Object("payload").Object("output").Text("type"); ok && kind == "tool-output" {
		kind += "(" + inner + ")"
	}
	return kind
}

func describe(c chunk.Chunk) string {
	out := string(c.Type())
	if b, ok := chunk.As[chunk.Custom](c); ok {
		out += ":" + b.EventName
	}
	if c.AgentID != root.ID {
		out = c.AgentID + "/" + out
	}
	return out
}

// Folding a part of a run, saving, loading and folding the rest gives the same snapshot as folding the whole run, for any position of the split, in the
// sessions of the agent and its sub-agents.
func TestRecordedRunsFoldAtEachCut(t *testing.T) {
	for _, r := range append(runs(t), cases(t)...) {
		t.Run(r.Name, func(t *testing.T) {
			for id, records := range log(t, translate(t, r)) {
				want := stored(foldAll(t, records))
				for cut := range records {
					s := apply(t, fold.New(records[0].Session).Snapshot(), records[:cut])
					if got := stored(apply(t, reload(t, s), records[cut:])); got != want {
						t.Fatalf("%s, cut after %d:\n got %s\nwant %s", id, cut, got, want)
					}
				}
			}
		})
	}
}

func stored(s fold.Snapshot) string {
	out := string(s.AppendHead(nil))
	for _, f := range s.FinishedMessages() {
		out += "\n" + string(f.Data)
	}
	return out
}

func reload(tb fataler, s fold.Snapshot) fold.Snapshot {
	tb.Helper()
	back, err := fold.ParseHead(s.AppendHead(nil))
	if err != nil {
		tb.Fatal(err)
	}
	var data [][]byte
	for _, f := range s.FinishedMessages()[:back.TrimmedCount()] { // the head has the others
		data = append(data, f.Data)
	}
	f := fold.From(back)
	if err := f.Attach(data); err != nil {
		tb.Fatal(err)
	}
	return f.Snapshot()
}

// Mastra repeats the complete history at the end of a run. The fold of the earlier chunks has the same content: every text, every call with input and outcome,
// and the number of tokens.
func TestNothingIsLost(t *testing.T) {
	checked := 0
	for _, r := range runs(t) {
		var finish struct {
			Type    string `json:"type"`
			Payload struct {
				Output struct {
					Usage struct {
						Input  int64 `json:"inputTokens"`
						Output int64 `json:"outputTokens"`
					} `json:"usage"`
				} `json:"output"`
				Messages struct {
					NonUser []struct {
						Content []part `json:"content"`
					} `json:"nonUser"`
				} `json:"messages"`
			} `json:"payload"`
		}
		last := r.Chunks[len(r.Chunks)-1]
		if err := json.Unmarshal(last, &finish); err != nil || finish.Type != "finish" {
			continue // a run that did not finish, or a workflow
		}
		t.Run(r.Name, func(t *testing.T) {
			checked++
			s := snapshots(t, r)[root.ID]
			usage := finish.Payload.Output.Usage
			if s.Usage.Input != usage.Input || s.Usage.Output != usage.Output {
				t.Errorf("usage %+v, want %+v", s.Usage, usage)
			}
			var want []string
			for _, m := range finish.Payload.Messages.NonUser {
				for _, p := range m.Content {
					want = append(want, history(p))
				}
			}
			var got []string
			for _, p := range answer(t, s) {
				switch p["type"] {
				case "text", "reasoning":
					got = append(got, fmt.Sprintf("%s %s", p["type"], p["text"]))
				case "dynamic-tool":
					got = append(got,
						fmt.Sprintf("call %s %s %s", p["toolCallId"], p["toolName"], asJSON(p["input"])),
						fmt.Sprintf("outcome %s %s", p["toolCallId"], asJSON(outcome(p))))
				case "file":
					got = append(got, fmt.Sprintf("file %s", p["mediaType"]))
				}
			}
			for _, line := range want {
				if r.Name == "tool-unknown" && strings.HasPrefix(line, "outcome") {
					line = `outcome c1 "ToolNotFoundError"` // the chunk has no more members
				}
				if !slices.Contains(got, line) {
					t.Errorf("%s is missing among\n%s", line, strings.Join(got, "\n"))
				}
			}
		})
	}
	if checked != 20 {
		t.Errorf("%d runs with a history were checked, want 20", checked)
	}
}

// outcome returns the outcome of the part of a tool: a result, an error, or the reason of a denial.
func outcome(p part) any {
	if approval, _ := p["approval"].(part); approval["reason"] != nil {
		return approval["reason"]
	}
	if p["errorText"] != nil {
		return p["errorText"]
	}
	return p["output"]
}

// history returns a part of Mastra's history as one line.
func history(p part) string {
	switch p["type"] {
	case "text", "reasoning":
		return fmt.Sprintf("%s %s", p["type"], p["text"])
	case "tool-call":
		return fmt.Sprintf("call %s %s %s", p["toolCallId"], p["toolName"], asJSON(p["input"]))
	case "tool-result":
		output, _ := p["output"].(part)
		return fmt.Sprintf("outcome %s %s", p["toolCallId"], asJSON(output["value"]))
	default:
		return fmt.Sprintf("%s %s", p["type"], p["mediaType"])
	}
}
