//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// TestImage runs the program of the image as its user, with its variables and its files alone, as `docker run … up --trust-network` does, and chats with the demo agent.
func TestImage(t *testing.T) {
	const id = 65532 // of the user
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "run", "./image", "-out", filepath.Join(dir, "image"), "linux/"+runtime.GOARCH+"="+roletest.Program(t, built))
	build.Dir = "../deploy"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root := filepath.Join(dir, "root")
	config := unpackImage(t, filepath.Join(dir, "image"), root)
	if _, has := config.Volumes["/data"]; !has || config.User != fmt.Sprintf("%d:%d", id, id) || !slices.Contains(config.Env, "TAILRACE_DATA_DIR=/data") || !slices.Contains(config.Env, "TAILRACE_LISTEN=:4480") {
		t.Errorf("%+v", config)
	}
	u := newUp(t, "--trust-network", "--demo", "0")
	u.bin, u.dir = config.Entrypoint[0], "/data"
	u.environment = append(slices.Clone(config.Env), "TAILRACE_OPS_LISTEN=127.0.0.1:0") // no port of the host
	u.isolate = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		letPass(t, root)
		u.isolate.Credential = &syscall.Credential{Uid: id, Gid: id}
	} else { // this user is the one of the image in a namespace of users
		u.isolate.Cloneflags = syscall.CLONE_NEWUSER
		u.isolate.UidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Geteuid(), Size: 1}}
		u.isolate.GidMappings = []syscall.SysProcIDMap{{ContainerID: id, HostID: os.Getegid(), Size: 1}}
	}
	u.start(t)
	session := startDemo(t, u.url, "plain")
	natstest.Eventually(t, "the answer is complete", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+"/api/chat/"+session+"/snapshot", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(body, []byte(`"status":"ended"`)) {
			return fmt.Errorf("status %d, %w: %.300s", resp.StatusCode, err, body)
		}
		return nil
	})
	if code := u.stop(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// imageConfig are the members of the configuration of an image that are used here.
type imageConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	Volumes    map[string]struct{}
}

// unpackImage writes the files of the only image of an OCI layout, and returns its configuration.
func unpackImage(t *testing.T, layout, root string) imageConfig {
	t.Helper()
	type descriptor struct {
		Digest string `json:"digest"`
	}
	var list struct {
		Manifests []descriptor `json:"manifests"`
	}
	read := func(path string, into any) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	blob := func(d descriptor) string {
		return filepath.Join(layout, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
	}
	read(filepath.Join(layout, "index.json"), &list)
	read(blob(list.Manifests[0]), &list)
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	read(blob(list.Manifests[0]), &manifest)
	var file struct {
		Config imageConfig `json:"config"`
	}
	read(blob(manifest.Config), &file)
	for _, layer := range manifest.Layers {
		if err := unpackLayer(blob(layer), root); err != nil {
			t.Fatal(err)
		}
	}
	return file.Config
}

// unpackLayer writes the files of a layer with their modes, and with their owners if the test runs as root.
func unpackLayer(path, root string) error {
	layer, err := os.Open(path)
	if err != nil {
		return err
	}
	defer layer.Close()
	content, err := gzip.NewReader(layer)
	if err != nil {
		return err
	}
	for in := tar.NewReader(content); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackFile(in, head, filepath.Join(root, filepath.Clean("/"+head.Name)))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func unpackFile(in io.Reader, head *tar.Header, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := head.FileInfo().Mode().Perm()
	switch head.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(path, mode); err != nil {
			return err
		}
	case tar.TypeReg:
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, data, mode); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s has the type %q", head.Name, head.Typeflag)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, head.Uid, head.Gid)
}

// letPass lets other users pass the directories of the test.
func letPass(t *testing.T, root string) {
	t.Helper()
	for dir := filepath.Dir(root); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
}
