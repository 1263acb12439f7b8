//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

// TestGoRun runs the program with Go alone, as README says: in an empty folder, from a module proxy that has the working tree as a release. The proxy refuses files
// that proxy.golang.org refuses.
func TestGoRun(t *testing.T) {
	const command = "go run github.com/tailrace/tailrace/cmd/tailrace@latest"
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "`"+command+" up`") {
		t.Errorf("README.md has no `%s up`", command)
	}
	release := module.Version{Path: "github.com/tailrace/tailrace", Version: "v0.0.1"}
	listen := "127.0.0.1:" + strconv.Itoa(freePort(t))
	env := append(goEnv(t, writeProxy(t, release)), "TAILRACE_DATA_DIR=data", "TAILRACE_LISTEN="+listen, "TAILRACE_NATS_PORT="+strconv.Itoa(freePort(t)))
	dir := t.TempDir()
	goRun := func(args string) (*exec.Cmd, *outputtest.Buffer) {
		var out outputtest.Buffer
		cmd := exec.Command("sh", "-c", "exec "+command+" "+args)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		return cmd, &out
	}
	version, out := goRun("version")
	if err := version.Run(); err != nil || !strings.Contains(out.String(), "tailrace "+release.Version+" (") {
		t.Fatalf("%s version: %v: %s", command, err, out)
	}
	up, out := goRun("up --demo 0")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-up.Process.Pid, syscall.SIGKILL) // the group may have ended
		_ = up.Wait()                                      // it was killed
	})
	natstest.Eventually(t, command+" up prints its URL", func(context.Context) error {
		if !strings.Contains(out.String(), "Tailrace is running: http://"+listen) {
			return errors.New(out.String())
		}
		return nil
	})
	status, _, body := get(t, "http://"+listen+"/")
	if status != 200 || !strings.Contains(body, "<html") {
		t.Errorf("the page: status %d: %.200s", status, body)
	}
}

// writeProxy writes a module proxy with one version, made of the files that git has or would add, and returns its directory.
func writeProxy(t *testing.T, release module.Version) string {
	t.Helper()
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(release.Path), "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": release.Version + "\n", release.Version + ".mod": string(gomod),
		release.Version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, release.Version),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = ".."
	names, err := git.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join("..", name)); err == nil { // it may have been deleted
			files = append(files, treeFile(name))
		}
	}
	archive, err := os.Create(filepath.Join(dir, release.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zip.Create(archive, release, files), archive.Close()); err != nil {
		t.Fatalf("the module is not accepted by a proxy: %v", err)
	}
	return proxy
}

// treeFile is a file of the working tree.
type treeFile string

func (f treeFile) Path() string                 { return string(f) }
func (f treeFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join("..", string(f))) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join("..", string(f))) }

// goEnv returns the environment of a go command that has the modules of this machine and those of a proxy in an empty cache of modules, and the shared build cache.
func goEnv(t *testing.T, proxy string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	cache, configured, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+configured, "GOMODCACHE="+t.TempDir(),
		"GONOSUMDB=*", "GOFLAGS=-trimpath -tags=grpcnotrace -modcacherw", "CGO_ENABLED=0", "GOWORK=off")
}
