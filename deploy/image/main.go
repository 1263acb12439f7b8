// Command image writes a multi-platform OCI image of a program of Tailrace without a daemon: a static binary, the certificates of public authorities, and nothing else.
//
//	image -version v1.2.3 -created 2026-01-02T03:04:05Z -out dist/image linux/amd64=bin/a linux/arm64=bin/b
//
// The result is an OCI layout. With -push it is also pushed to a registry. With -sbom a command writes the bill of materials of one binary of any platform, and no image.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	program := flags.String("program", "tailrace", "name of the program in the image")
	version := flags.String("version", "dev", "version of the image, its tag in the layout")
	created := flags.String("created", "1970-01-01T00:00:00Z", "time of the image, such as that of the commit: the same input gives the same image")
	out := flags.String("out", "", "directory of the OCI layout, which is replaced")
	push := flags.String("push", "", "repository and tag to push the image to, with the credentials of docker login")
	sbom := flags.String("sbom", "", "file of the bill of materials of one binary, which is written instead of an image")
	if err := flags.Parse(args); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, *created)
	if err != nil {
		return fmt.Errorf("created: %w", err)
	}
	if *sbom == "" && *out == "" || flags.NArg() == 0 || *sbom != "" && flags.NArg() != 1 {
		return errors.New("want -out and at least one platform=binary, or -sbom and one")
	}
	var binaries []binary
	for _, arg := range flags.Args() {
		platform, path, _ := strings.Cut(arg, "=")
		b, err := readBinary(platform, path)
		if err == nil && *sbom == "" {
			err = b.checkStatic()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		b.name = *program
		binaries = append(binaries, b)
	}
	if *sbom != "" {
		text, err := billOfMaterials(binaries[0], *version, at)
		if err != nil {
			return err
		}
		return os.WriteFile(*sbom, text, 0o644) //nolint:gosec // public
	}
	built, err := build(binaries, *version, at)
	if err != nil {
		return err
	}
	if err := built.write(*out, *version); err != nil {
		return err
	}
	for i, b := range binaries {
		file := filepath.Join(filepath.Dir(*out), b.name+"-"+b.platform.OS+"-"+b.platform.Architecture+".spdx.json")
		if err := os.WriteFile(file, built.boms[i], 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	if *push == "" {
		return nil
	}
	return built.push(ctx, *push)
}

// write replaces the directory with an OCI layout.
func (m multi) write(dir, version string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(m.index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return err
	}
	for _, bom := range m.attached {
		if err := path.AppendImage(bom); err != nil {
			return err
		}
	}
	return nil
}

// push writes the image and then what is attached to it to a registry.
func (m multi) push(ctx context.Context, target string) error {
	ref, err := name.ParseReference(target)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(ref, m.index, options...); err != nil {
		return err
	}
	for _, bom := range m.attached {
		digest, err := bom.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(ref.Context().Digest(digest.String()), bom, options...); err != nil {
			return err
		}
	}
	return nil
}

// multi is an image for several platforms.
type multi struct {
	index    v1.ImageIndex
	boms     [][]byte   // SPDX, by platform
	attached []v1.Image // the same as artifacts that refer to the image of their platform
}
