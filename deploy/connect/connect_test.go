// Package connect has configurations of Redpanda Connect, which are tested with its core, Benthos.
package connect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
)

const asBenthos = "TEST_AS_BENTHOS"

// TestMain runs the tests, or Benthos in a process that a test has started.
func TestMain(m *testing.M) {
	if os.Getenv(asBenthos) != "" {
		service.RunCLI(context.Background())
		return
	}
	os.Exit(m.Run())
}

// Each record is stored, although Benthos is killed at random times, and what the store refuses is not confirmed.
func TestFirehose(t *testing.T) {
	const records, kills = 3000, 8
	home := t.TempDir()
	binary := filepath.Join(home, "tailrace")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/tailrace")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	url := startTailrace(t, binary, home)
	publish := exec.CommandContext(t.Context(), binary, "publish", "--session=s", "--nats-url="+url)
	publish.Stdin = strings.NewReader(strings.Repeat(`{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":9007199254740993}`+"\n", records))
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	load := func(store, limit string) error {
		config := filepath.Join(home, "store.yaml")
		if err := os.WriteFile(config, []byte("output_resources:\n  - label: store\n    "+store+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		benthos, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		here, err := filepath.Abs("firehose.yaml")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), binary, "firehose", "--nats-url="+url, "--durable=connect", "--from-start", "--no-follow", "--format=cloudevents",
			"--exec", fmt.Sprintf("exec timeout -s KILL %s '%s' run -r '%s' '%s'", limit, benthos, config, here))
		cmd.Dir, cmd.Env, cmd.Stderr = home, append(os.Environ(), asBenthos+"=1"), t.Output()
		return cmd.Run()
	}
	if err := load(`reject: "refused"`, "60"); err == nil {
		t.Fatal("the store has refused all events, the firehose has not failed")
	}
	var files []string // one for each process, because a kill can cut its last line
	next := func() string {
		files = append(files, filepath.Join(home, fmt.Sprint("events", len(files))))
		return fmt.Sprintf("file: {path: %s, codec: lines}", files[len(files)-1])
	}
	for range kills {
		t.Log(load(next(), fmt.Sprintf("0.%d", 3+rand.IntN(6))))
	}
	if err := load(next(), "60"); err != nil {
		t.Fatal(err)
	}
	stored, repeated := positions(t, files...)
	listed := exec.CommandContext(t.Context(), binary, "firehose", "--nats-url="+url, "--no-follow", "--format=cloudevents")
	all, err := listed.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "all"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	want, _ := positions(t, filepath.Join(home, "all"))
	for position, line := range want {
		if stored[position] == "" {
			t.Errorf("not stored: %s", line)
		}
	}
	if len(want) < records {
		t.Errorf("the log has %d records, want %d", len(want), records)
	}
	t.Logf("%d events stored, %d of them again after a kill", len(stored), repeated)
}

// positions returns the lines of files by their position, and how many were there again.
func positions(t *testing.T, paths ...string) (lines map[string]string, repeated int) {
	t.Helper()
	lines = map[string]string{}
	var data []byte
	for _, path := range paths {
		part, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a process that was killed early has no file
			t.Fatal(err)
		}
		data = append(append(data, part...), '\n')
	}
	for line := range bytes.Lines(data) {
		var event struct {
			Position string `json:"position"`
		}
		if json.Unmarshal(line, &event) != nil || event.Position == "" {
			continue
		}
		if lines[event.Position] != "" {
			repeated++
		}
		lines[event.Position] = string(line)
	}
	return lines, repeated
}

func startTailrace(t *testing.T, binary, home string) (url string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "up", "--listen=127.0.0.1:0", "--nats-port="+port, "--ops-listen=", "--log-level=warn")
	cmd.Dir, cmd.Stderr = home, t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait() // it was ended by a signal
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "Tailrace is running") {
			return "nats://127.0.0.1:" + port
		}
	}
	t.Fatal("tailrace ended")
	return ""
}

// A message of the log, binary or msgpack, becomes a CloudEvent.
func TestPush(t *testing.T) {
	data, err := os.ReadFile("push.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, pipeline, _ := strings.Cut(string(data), "\npipeline:\n")
	pipeline, _, _ = strings.Cut(pipeline, "\noutput:\n")
	_, mapping, _ := strings.Cut(pipeline, "- mapping: |\n")
	for name, c := range map[string]struct {
		meta map[string]string
		body string
		want string
	}{
		"JSON": {
			map[string]string{"ce-specversion": "1.0", "ce-id": "3-17", "ce-source": "/acme/s1/chat%2F1+2", "ce-type": "text_delta", "ce-time": "2023-11-14T22:13:20.123Z", "ce-datacontenttype": "application/json", "nats_sequence_stream": "4711"},
			`{"type":"text_delta","n":9007199254740993}`,
			`{"data":{"n":9007199254740993,"type":"text_delta"},"datacontenttype":"application/json","epoch":3,"id":"3-17","ordinal":17,"root":"s1","sequence":"4711","session":"chat/1+2","source":"/acme/s1/chat%2F1+2","specversion":"1.0","tenant":"acme","time":"2023-11-14T22:13:20.123Z","type":"text_delta"}`,
		},
		"msgpack, without a time": {
			map[string]string{"ce-id": "1-1", "ce-source": "/acme/s1/s1", "ce-type": "custom", "ce-datacontenttype": "application/msgpack", "nats_sequence_stream": "1"},
			"\x80",
			`{"data_base64":"gA==","datacontenttype":"application/msgpack","epoch":1,"id":"1-1","ordinal":1,"root":"s1","sequence":"1","session":"s1","source":"/acme/s1/s1","specversion":"1.0","tenant":"acme","type":"custom"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			builder := service.NewStreamBuilder()
			builder.DisableLinting()
			if err := builder.SetLoggerYAML("level: \"OFF\""); err != nil {
				t.Fatal(err)
			}
			if err := builder.AddProcessorYAML("mapping: |\n" + mapping); err != nil {
				t.Fatal(err)
			}
			produce, err := builder.AddProducerFunc()
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 1)
			if err := builder.AddConsumerFunc(func(_ context.Context, m *service.Message) error {
				b, err := m.AsBytes()
				if m.GetError() != nil {
					err = m.GetError()
				}
				got <- fmt.Sprintf("%s%v", b, map[bool]any{true: "", false: err}[err == nil])
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			stream, err := builder.Build()
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- stream.Run(context.Background()) }()
			m := service.NewMessage([]byte(c.body))
			for k, v := range c.meta {
				m.MetaSetMut(k, v)
			}
			if err := produce(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if g := <-got; g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
			if err := stream.StopWithin(10 * time.Second); err != nil {
				t.Error(err)
			}
			<-ended
		})
	}
}
