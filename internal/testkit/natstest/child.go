package natstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// natsserver is the directory of the program of the servers, from the root of the module, and the last part is its name as a tool of the module.
const natsserver = "internal/testkit/natstest/natsserver"

// program returns the path of the program of the servers, which the first call in a test process builds. The go command keeps it in its build cache, so that
// each change is built once. It has no race detector, since GOFLAGS does not have -race: the detector is for our code.
var program = sync.OnceValues(func() (path string, err error) {
	cache, err := output("env", "GOCACHE")
	if err != nil {
		return "", err
	}
	// One process builds at a time. Two go commands would both write the file in the cache, and the first to end returns a path that the other still has open
	// for writing: the system refuses to start such a program (text file busy).
	lock, err := os.Open(cache) //nolint:gosec // the directory of the go command
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // closing the directory unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", cache, err)
	}
	if path, err = output("tool", "-n", filepath.Base(natsserver)); err != nil {
		return "", fmt.Errorf("build %s: %w", natsserver, err)
	}
	return path, readSources()
})

// output returns what a go command prints.
func output(args ...string) (string, error) {
	cmd := exec.Command("go", args...) //nolint:gosec,noctx // constant arguments; once for the process
	cmd.Dir = startDir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// startDir is the working directory before a test changes it: a directory of the module.
var startDir, _ = os.Getwd()

// readSources reads what the program is built from, because the go command remembers the files that a test has opened: a cached result of a test does not
// outlive a change of the server, which is not part of the test binary.
func readSources() error {
	root := startDir
	for {
		if _, err := os.Stat(filepath.Join(root, natsserver)); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			return fmt.Errorf("%s is in no directory above %s", natsserver, startDir)
		}
		root = filepath.Dir(root)
	}
	files, err := filepath.Glob(filepath.Join(root, natsserver, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range append(files, filepath.Join(root, "go.mod")) {
		if _, err := os.ReadFile(file); err != nil { //nolint:gosec // our own path
			return err
		}
	}
	return nil
}

// ProcessConfig is the configuration of a server. The program natsserver reads it as JSON from its standard input, and then changed ones. It shuts the server
// down at the end of the input, which is also the end of the process that started it.
type ProcessConfig struct {
	Name        string `json:"name"`
	StoreDir    string `json:"storeDir"`
	Port        int    `json:"port"`
	NoJetStream bool   `json:"noJetStream"`
	MaxPayload  int32  `json:"maxPayload"`
	MaxStore    int64  `json:"maxStore"`
	Text        string `json:"text"` // fragment of a configuration file

	Cluster     string `json:"cluster"` // name; empty for a single server
	ClusterPort int    `json:"clusterPort"`
	Routes      []int  `json:"routes"` // cluster ports of all members
}

// ProcessReport is a line of JSON that natsserver writes to its standard output: its state after each change, or a line of its log.
type ProcessReport struct {
	State *ProcessState `json:"state,omitempty"`
	Log   string        `json:"log,omitempty"`
	Fatal string        `json:"fatal,omitempty"` // reason of a failed start
}

// ProcessState is the state of a server and its cluster.
type ProcessState struct {
	Ready   bool `json:"ready"`   // accepts connections
	Current bool `json:"current"` // caught up with a meta leader; always true for a single server
	Leader  bool `json:"leader"`  // is the meta leader
	Peers   int  `json:"peers"`   // members of the JetStream cluster that are up, as seen by the meta leader; 0 on other nodes
	Routed  int  `json:"routed"`  // other members, as far as all routes to them are connected

	LeafNodes int   `json:"leafNodes"` // connections of leaf nodes
	Reloads   int32 `json:"reloads"`   // configurations that were read after the start
}
