package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// ErrNoJava means that this machine has no JDK or no Maven.
var ErrNoJava = errors.New("interop: no Java")

// build makes the Java program, unless what was made last is of the same sources, and returns its jar.
// Only the first build of a machine needs Maven and a network.
func build() (jar string, err error) {
	_, self, _, _ := runtime.Caller(0)
	project := filepath.Join(filepath.Dir(self), "java")
	target := filepath.Join(project, "target")
	jar = filepath.Join(target, "redisson-driver.jar")

	unlock, err := lockFile(filepath.Join(target, "build.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	sum, err := hashSources(project)
	if err != nil {
		return "", err
	}
	mark := filepath.Join(target, "sources.sha256")
	if built, err := os.ReadFile(mark); err == nil && string(built) == sum {
		return jar, nil
	}
	if err := maven(project); err != nil {
		return "", err
	}
	return jar, os.WriteFile(mark, []byte(sum), 0o644)
}

// maven packages the project: offline if everything is at hand, as that takes a fraction of the time.
func maven(project string) error {
	for _, tool := range []string{"javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrNoJava, err)
		}
	}
	run := func(flags ...string) ([]byte, error) {
		cmd := exec.Command("mvn", append(flags, "-q", "-B", "package")...)
		cmd.Dir = project
		return cmd.CombinedOutput()
	}
	if _, err := run("-o"); err == nil {
		return nil
	}
	if output, err := run(); err != nil {
		return fmt.Errorf("interop: mvn package: %w\n%s", err, bytes.TrimSpace(output))
	}
	return nil
}

// hashSources sums up everything that the jar is made of.
func hashSources(project string) (string, error) {
	sources := os.DirFS(project)
	sum := sha256.New()
	add := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sources, path)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content) // a hash takes everything
		return err
	}
	for _, root := range []string{"pom.xml", "src"} {
		if err := fs.WalkDir(sources, root, add); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lockFile keeps other test processes out: two Mavens in one directory spoil each other's work.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
