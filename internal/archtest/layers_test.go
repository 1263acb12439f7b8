package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tailrace/tailrace"

// layer is a part of the architecture. A package imports packages of its own layer and of lower ones.
type layer int

const (
	model   layer = iota + 1 // data and pure functions: no I/O
	engine                   // state machines over interfaces that they declare: no server, no HTTP
	adapter                  // one outside system for each package: NATS or HTTP
	program                  // wiring, binaries, examples: imports anything, nothing imports it
	testkit                  // imported by tests only
)

// side tells the two families of adapters apart. They do not import each other.
type side int

const (
	jetstream side = iota + 1
	http
	neither // an adapter of files, or of interfaces of both sides
)

// nameOf returns the name of a package of the module in the tables of this package: its directory, "." for the root of the module.
func nameOf(importPath string) (name string, own bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// titleOf returns the name of a package by which pages and files name it.
func titleOf(name string) string {
	if name == "." {
		return path.Base(module)
	}
	return name
}

type place struct {
	layer layer
	side  side
}

// layers has every package of the module with Go files outside of tests.
var layers = map[string]place{
	"chunk":               {layer: model},
	"codec":               {layer: model},
	"codec/agui":          {layer: model},
	"codec/aisdk":         {layer: model},
	"codec/anthropic":     {layer: model},
	"codec/helix":         {layer: model},
	"codec/kortyx":        {layer: model},
	"codec/langgraph":     {layer: model},
	"codec/mastra":        {layer: model},
	"codec/openai":        {layer: model},
	"docs":                {layer: model},
	"internal/rawjson":    {layer: model},
	"internal/search":     {layer: model},
	"internal/control":    {layer: model},
	"internal/dialect":    {layer: model},
	"internal/idtoken":    {layer: model},
	"internal/dialects":   {layer: model},
	"internal/names":      {layer: model},
	"internal/nearest":    {layer: model},
	"internal/turn":       {layer: model},
	"internal/structured": {layer: model},
	"internal/tracing":    {layer: model},
	"projector/fold":      {layer: model},
	"internal/values":     {layer: model},
	"internal/view":       {layer: model},
	"subjects":            {layer: model},
	"internal/revocation": {layer: model},

	"internal/openaistream": {layer: model},

	"internal/audit":        {layer: engine},
	"internal/wait":         {layer: engine},
	"internal/conversation": {layer: engine},
	"internal/flight":       {layer: engine},
	"internal/hub":          {layer: engine},
	"internal/ingestion":    {layer: engine},
	"internal/shares":       {layer: engine},
	"internal/projector":    {layer: engine},

	"consumers":              {adapter, jetstream},
	"internal/canary":        {adapter, jetstream},
	"internal/jsclient":      {adapter, jetstream},
	"internal/jsreader":      {adapter, jetstream},
	"internal/jscredentials": {adapter, jetstream},
	"internal/jscontrol":     {adapter, jetstream},
	"internal/jsingest":      {adapter, jetstream},
	"internal/jsinterest":    {adapter, jetstream},
	"internal/jssnapshots":   {adapter, jetstream},
	"internal/jsusage":       {adapter, jetstream},
	"internal/jsvalues":      {adapter, jetstream},
	"internal/natsauth":      {adapter, jetstream},
	"internal/retention":     {adapter, jetstream},
	"producers":              {adapter, jetstream},
	"internal/runs":          {adapter, jetstream},
	"internal/topology":      {adapter, jetstream},
	"workers":                {adapter, jetstream},

	"auth":                 {adapter, http},
	"internal/authn":       {adapter, http},
	"internal/access":      {adapter, http},
	"internal/httpkit":     {adapter, http},
	"internal/sse":         {adapter, http},
	"internal/httpedge":    {adapter, http},
	"sseedge":              {adapter, http},
	"internal/agentserver": {adapter, http},
	"internal/chat":        {adapter, http},
	"internal/credentials": {adapter, http},
	"internal/ingest":      {adapter, http},

	".":                    {layer: program},
	"agents/httpagent":     {layer: program},
	"agents/openai":        {layer: program},
	"cmd/tailrace":         {layer: program},
	"cmd/tailrace-bench":   {layer: program},
	"examples/chat/agent":  {layer: program},
	"examples/chat/login":  {layer: program},
	"examples/receiver":    {layer: program},
	"internal/bench":       {layer: program},
	"internal/demo":        {layer: program},
	"internal/inspector":   {layer: program},
	"internal/demo/script": {layer: program},
	"internal/embed":       {layer: program},
	"scripts/benchcompare": {layer: program},
	"scripts/concepts":     {layer: program},
	"scripts/slowtests":    {layer: program},
	"internal/health":      {layer: program},
	"internal/metrics":     {layer: program},
	"internal/outgoing":    {layer: program},
	"internal/roles":       {layer: program},

	"e2e":                          {layer: testkit},
	"e2e/aisdk":                    {layer: testkit},
	"e2e/chat":                     {layer: testkit},
	"e2e/clients":                  {layer: testkit},
	"e2e/compat":                   {layer: testkit},
	"e2e/create":                   {layer: testkit},
	"e2e/dialects":                 {layer: testkit},
	"e2e/dialects/agui":            {layer: testkit},
	"e2e/dialects/anthropic":       {layer: testkit},
	"e2e/dialects/langchain":       {layer: testkit},
	"e2e/dialects/mastra":          {layer: testkit},
	"e2e/dialects/npm":             {layer: testkit},
	"e2e/ingest":                   {layer: testkit},
	"e2e/httpagent":                {layer: testkit},
	"e2e/pods":                     {layer: testkit},
	"internal/archtest":            {layer: testkit},
	"internal/testkit/authtest":    {layer: testkit},
	"internal/testkit/browsertest": {layer: testkit},
	"internal/testkit/certtest":    {layer: testkit},
	"internal/testkit/chunktest":   {layer: testkit},
	"internal/testkit/dialecttest": {layer: testkit},
	"internal/testkit/ingesttest":  {layer: testkit},
	"internal/testkit/memlog":      {layer: testkit},
	"internal/testkit/natstest":    {layer: testkit},

	"internal/testkit/natstest/natsserver": {layer: testkit},

	"internal/testkit/openaitest":  {layer: testkit},
	"internal/testkit/openapitest": {layer: testkit},
	"internal/testkit/outputtest":  {layer: testkit},
	"internal/testkit/posttest":    {layer: testkit},
	"internal/testkit/roletest":    {layer: testkit},
	"internal/testkit/seedtest":    {layer: testkit},
	"internal/testkit/stack":       {layer: testkit},
	"internal/testkit/storetest":   {layer: testkit},
	"internal/testkit/turntest":    {layer: testkit},
	"internal/testkit/viewtest":    {layer: testkit},
	"internal/testkit/streamtest":  {layer: testkit},
}

const (
	natsGo     = "github.com/nats-io/nats.go"
	natsServer = "github.com/nats-io/nats-server"
	prometheus = "github.com/prometheus/"
)

// direct holds what the files of a package of a layer must not import themselves.
var direct = map[layer][]string{
	model:   {"os", "net", "net/http", "log/slog"},
	engine:  {natsServer},
	adapter: {natsServer},
}

// transitive holds what must not be anywhere below a package of a layer.
var transitive = map[layer][]string{
	model:  {"net/http", natsGo, prometheus},
	engine: {"net/http", natsGo, prometheus},
}

// testOnly is for tests and examples alone.
var testOnly = []string{
	"github.com/chromedp/", "pgregory.net/rapid", "go.uber.org/goleak",
	"github.com/cloudevents/sdk-go/protocol/", "github.com/rogpeppe/", "github.com/getkin/", "github.com/prometheus/client_golang/prometheus/testutil", "testing",
}

// exceptions are imports that break a rule today, with the reason. One that is not needed any more fails the test.
var exceptions = map[string]string{}

type listed struct {
	ImportPath string   `json:"ImportPath"`
	Name       string   `json:"Name"`
	Imports    []string `json:"Imports"`
	Deps       []string `json:"Deps"`
	GoFiles    []string `json:"GoFiles"`
}

func TestLayers(t *testing.T) {
	used := map[string]bool{}
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		if len(pkg.GoFiles) == 0 {
			continue
		}
		at, known := layers[name]
		if !known {
			t.Errorf("package %s has no layer: add it to the table", name)
			continue
		}
		for _, broken := range violations(name, at, pkg) {
			if _, ok := exceptions[broken]; ok {
				used[broken] = true
				continue
			}
			t.Error(broken)
		}
	}
	for rule := range exceptions {
		if !used[rule] {
			t.Errorf("exception not needed any more: %s", rule)
		}
	}
}

// violations returns a line for each import of pkg that breaks a rule of its layer.
func violations(name string, at place, pkg listed) (broken []string) {
	if at.layer == testkit {
		return nil
	}
	refuse := func(imp, why string) { broken = append(broken, name+" imports "+imp+": "+why) }
	for _, imp := range pkg.Imports {
		if matches(imp, direct[at.layer]) {
			refuse(imp, "not in this layer")
		}
		if matches(imp, testOnly) && !strings.HasPrefix(name, "examples/") {
			refuse(imp, "for tests and examples")
		}
		if at.side == jetstream && imp == "net/http" || at.side == http && matches(imp, []string{natsGo}) {
			refuse(imp, "an adapter has one outside system")
		}
		target, ok := nameOf(imp)
		if !ok {
			continue
		}
		below := layers[target]
		switch {
		case below.layer == testkit:
			refuse(target, "for tests")
		case below.layer > at.layer:
			refuse(target, "a higher layer")
		case at.layer == adapter && below.layer == adapter && below.side != at.side && below.side != neither:
			refuse(target, "the other side")
		}
	}
	for _, rule := range transitive[at.layer] {
		if slices.ContainsFunc(pkg.Deps, func(dep string) bool { return matches(dep, []string{rule}) }) {
			refuse(rule, "not below this layer")
		}
	}
	if at.side == jetstream && slices.ContainsFunc(pkg.Deps, func(dep string) bool { return matches(dep, []string{prometheus}) }) {
		refuse(prometheus, "metrics belong to the HTTP side and to programs")
	}
	return broken
}

// matches reports whether imp is one of the packages of list, or below one that ends with a slash or names a module.
func matches(imp string, list []string) bool {
	return slices.ContainsFunc(list, func(rule string) bool {
		return imp == rule || strings.HasPrefix(imp, rule) && strings.Contains(rule, ".")
	})
}

// TestLayersExist fails for a package of the table that is gone.
func TestLayersExist(t *testing.T) {
	var names []string
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		names = append(names, name)
	}
	for name := range layers {
		if !slices.Contains(names, name) {
			t.Errorf("the table has %s, which does not exist", name)
		}
	}
}

// list asks for one platform, so that the answer is the same on all machines.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports,Deps,GoFiles", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
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
