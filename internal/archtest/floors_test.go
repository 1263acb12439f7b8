package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tailrace/tailrace"

// The floors, from the ground up. A package imports only lower floors.
const (
	cellar = iota
	ground
	first
	second
	third
	attic // uses the services
	upper // uses the attic
	eaves // uses the upper floor, is used by the roof only
	roof
)

// plan holds every package of the module. nats marks the rooms that may speak
// to NATS; the edge's logic, the fold and the vocabulary are tested without it.
var plan = map[string]struct {
	floor int
	nats  bool
}{
	"internal/jsonscan":     {floor: cellar},
	"chunk":                 {floor: ground},
	"subjects":              {floor: first},
	"codec":                 {floor: first},
	"codec/aisdk":           {floor: second},
	"codec/aisdk/guard":     {floor: ground},
	"codec/mastra":          {floor: second},
	"projector/fold":        {floor: second},
	"projector/structured":  {floor: first},
	"sseedge/sse":           {floor: first},
	"internal/topology":     {floor: second, nats: true},
	"internal/jsapi":        {floor: second, nats: true},
	"internal/archive":      {floor: second},
	"internal/turns":        {floor: third, nats: true},
	"internal/embed":        {floor: second, nats: true},
	"sseedge/native":        {floor: second},
	"sseedge/hub":           {floor: second},
	"sseedge/view":          {floor: second},
	"producers":             {floor: third, nats: true},
	"consumers":             {floor: third, nats: true},
	"projector":             {floor: third},
	"projector/kvstore":     {floor: attic, nats: true},
	"projector/erase":       {floor: attic, nats: true},
	"projector/natssource":  {floor: attic, nats: true},
	"projector/deadletters": {floor: attic, nats: true},
	"sseedge":               {floor: third},
	"sseedge/chat":          {floor: attic},
	"sseedge/agentserver":   {floor: attic},
	"commands":              {floor: third, nats: true},
	"inbox":                 {floor: third, nats: true},
	"workers":               {floor: upper, nats: true},
	"internal/compact":      {floor: attic, nats: true},
	"internal/demo":         {floor: attic, nats: true},
	"internal/demo/page":    {floor: ground},
	"internal/demo/script":  {floor: first},
	"internal/hublog":       {floor: attic},
	"internal/bench":        {floor: upper, nats: true},
	"agents/openai":         {floor: eaves},
	"cmd/tailrace":          {floor: roof, nats: true},
	"examples/receiver":     {floor: roof, nats: true},
	"examples/chat/agent":   {floor: roof, nats: true},
}

// testRooms serve tests only; no package may import them outside its tests.
var testRooms = []string{
	"chunk/chunktest", "internal/natstest", "internal/chromiumtest", "internal/logtest", "internal/openapitest", "internal/openaitest", "internal/seedtest", "internal/archtest", "projector/storetest", "e2e", "e2e/aisdk", "e2e/chat",
}

// forbidden outside tests, for every package: what only tests and examples need.
var testOnly = []string{
	"github.com/chromedp/", "pgregory.net/rapid", "go.uber.org/goleak",
	"github.com/cloudevents/sdk-go/protocol/", "github.com/rogpeppe/", "github.com/getkin/", "github.com/prometheus/client_golang/prometheus/testutil", "testing",
}

type listed struct {
	ImportPath string   `json:"ImportPath"`
	Imports    []string `json:"Imports"`
	GoFiles    []string `json:"GoFiles"`
}

func TestFloors(t *testing.T) {
	for _, pkg := range list(t) {
		name := strings.TrimPrefix(pkg.ImportPath, module+"/")
		if slices.Contains(testRooms, name) || len(pkg.GoFiles) == 0 {
			continue
		}
		room, known := plan[name]
		if !known {
			t.Errorf("%s has no floor: decide where it lives", name)
			continue
		}
		for _, imp := range pkg.Imports {
			checkImport(t, name, room.floor, room.nats, imp)
		}
	}
}

func checkImport(t *testing.T, name string, floor int, nats bool, imp string) {
	t.Helper()
	if strings.HasPrefix(imp, "github.com/nats-io/") && !nats {
		t.Errorf("%s imports %s: it must work without a server", name, imp)
	}
	for _, prefix := range testOnly {
		if !strings.HasPrefix(name, "examples/") && strings.HasPrefix(imp, prefix) {
			t.Errorf("%s imports %s, which belongs to tests and examples", name, imp)
		}
	}
	lower, ours := strings.CutPrefix(imp, module+"/")
	if !ours {
		return
	}
	if slices.Contains(testRooms, lower) {
		t.Errorf("%s imports the test room %s", name, lower)
	} else if plan[lower].floor >= floor {
		t.Errorf("%s (floor %d) imports %s (floor %d): imports go down", name, floor, lower, plan[lower].floor)
	}
}

// TestPlanIsReal fails when the plan names a package that is gone.
func TestPlanIsReal(t *testing.T) {
	var names []string
	for _, pkg := range list(t) {
		names = append(names, strings.TrimPrefix(pkg.ImportPath, module+"/"))
	}
	for name := range plan {
		if !slices.Contains(names, name) {
			t.Errorf("the plan names %s, which does not exist", name)
		}
	}
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,GoFiles", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, pkg)
	}
}
