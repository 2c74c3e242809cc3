package sources

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	npmRoot    = "npm"
	pythonRoot = "python/simple"
	version    = "1.0.0"
)

// InstallScript is the file of an npm package that runs at its installation.
const InstallScript = "postinstall.js"

// Scope is the scope of every npm package here.
const Scope = "@shop"

// PublishNPM publishes version 1.0.0 of a package in Scope with the given files and a package.json.
func (s *Server) PublishNPM(ctx context.Context, name string, files map[string]string) error {
	archive, err := npmArchive(Scope+"/"+name, files)
	if err != nil {
		return err
	}
	file := "-/" + name + "-" + version + ".tgz"
	document, err := npmDocument(Scope+"/"+name, "http://"+s.Host()+"/packages/"+npmRoot+"/"+file, archive, files)
	if err != nil {
		return err
	}
	return s.put(ctx, map[string][]byte{
		path.Join(npmRoot, file): archive, path.Join(npmRoot, Scope, name): document,
	})
}

// PublishWheel publishes version 1.0.0 of a Python package with one module of the same name.
func (s *Server) PublishWheel(ctx context.Context, name, source string) error {
	wheel, err := wheelOf(name, source)
	if err != nil {
		return err
	}
	file := name + "-" + version + "-py3-none-any.whl"
	index := fmt.Sprintf("<!DOCTYPE html><html><body><a href=%q>%s</a></body></html>\n", file, file)
	dir := path.Join(pythonRoot, strings.ReplaceAll(name, "_", "-"))
	return s.put(ctx, map[string][]byte{path.Join(dir, file): wheel, path.Join(dir, "index.html"): []byte(index)})
}

// PublishSource publishes a Python package that is built by its setup.py at its installation.
func (s *Server) PublishSource(ctx context.Context, name, setup string) error {
	root := name + "-" + version + "/"
	archive, err := packed(map[string][]byte{
		root + "PKG-INFO": []byte("Metadata-Version: 1.0\nName: " + name + "\nVersion: " + version + "\n"), root + "setup.py": []byte(setup),
	})
	if err != nil {
		return err
	}
	file := name + "-" + version + ".tar.gz"
	index := fmt.Sprintf("<!DOCTYPE html><html><body><a href=%q>%s</a></body></html>\n", file, file)
	dir := path.Join(pythonRoot, strings.ReplaceAll(name, "_", "-"))
	return s.put(ctx, map[string][]byte{path.Join(dir, file): archive, path.Join(dir, "index.html"): []byte(index)})
}

// NPMRC returns settings by which npm fetches packages of Scope from this server.
func (s *Server) NPMRC() string {
	registry := "//" + s.Host() + "/packages/" + npmRoot + "/"
	return s.npmScope(registry) + registry + ":_auth=" + base64.StdEncoding.EncodeToString([]byte(User+":"+Password)) + "\n"
}

// NPMRCWithoutPassword returns the same settings without the required password.
func (s *Server) NPMRCWithoutPassword() string {
	return s.npmScope("//" + s.Host() + "/packages/" + npmRoot + "/")
}

func (s *Server) npmScope(registry string) string { return Scope + ":registry=http:" + registry + "\n" }

// PipConf returns settings by which pip also searches this server.
func (s *Server) PipConf() string {
	return fmt.Sprintf("[global]\nextra-index-url = http://%s:%s@%s/packages/%s/\ntrusted-host = %s\n",
		User, Password, s.Host(), pythonRoot, s.Host())
}

// put writes files below the directory of packages.
func (s *Server) put(ctx context.Context, files map[string][]byte) error {
	var archive bytes.Buffer
	if err := writeTar(&archive, files); err != nil {
		return err
	}
	_, err := s.run(ctx, &archive, "tar --extract --directory /srv/www/packages")
	return err
}

func writeTar(out *bytes.Buffer, files map[string][]byte) error {
	archive := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := archive.Write(files[name]); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	return archive.Close()
}

// npmArchive returns the archive that npm pack would make.
func npmArchive(name string, files map[string]string) ([]byte, error) {
	manifest, err := json.Marshal(npmManifest(name, files))
	if err != nil {
		return nil, fmt.Errorf("encode package.json: %w", err)
	}
	content := map[string][]byte{"package/package.json": manifest}
	for file, text := range files {
		content["package/"+file] = []byte(text)
	}
	return packed(content)
}

// packed returns an archive of files.
func packed(content map[string][]byte) ([]byte, error) {
	var plain, small bytes.Buffer
	if err := writeTar(&plain, content); err != nil {
		return nil, err
	}
	compressed := gzip.NewWriter(&small)
	_, err := compressed.Write(plain.Bytes())
	if err = errors.Join(err, compressed.Close()); err != nil {
		return nil, fmt.Errorf("compress an archive: %w", err)
	}
	return small.Bytes(), nil
}

func npmManifest(name string, files map[string]string) map[string]any {
	manifest := map[string]any{"name": name, "version": version, "main": "index.js"}
	if _, scripted := files[InstallScript]; scripted {
		manifest["scripts"] = map[string]string{"postinstall": "node " + InstallScript}
	}
	if _, native := files["binding.gyp"]; native {
		manifest["scripts"], manifest["gypfile"] = map[string]string{"install": "node-gyp rebuild"}, true
	}
	return manifest
}

// npmDocument returns the registry's document about a package.
func npmDocument(name, url string, archive []byte, files map[string]string) ([]byte, error) {
	sum := sha512.Sum512(archive)
	manifest := npmManifest(name, files)
	_, manifest["hasInstallScript"] = manifest["scripts"]
	manifest["dist"] = map[string]string{"tarball": url, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	document, err := json.Marshal(map[string]any{
		"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the document of %s: %w", name, err)
	}
	return document, nil
}

// wheelOf returns a wheel with one module.
func wheelOf(name, source string) ([]byte, error) {
	info := name + "-" + version + ".dist-info/"
	files := []struct{ path, text string }{
		{name + ".py", source},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: rouse-e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	}
	var wheel bytes.Buffer
	archive := zip.NewWriter(&wheel)
	for _, file := range files {
		entry, err := archive.Create(file.path)
		if err == nil {
			_, err = entry.Write([]byte(file.text))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pack %s", file.path), err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("pack %s: %w", name, err)
	}
	return wheel.Bytes(), nil
}
