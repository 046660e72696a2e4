package interop

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// ErrNoJava means that this machine has no JDK or no Maven.
var ErrNoJava = errors.New("interop: no Java")

// Classpath makes the Java program, and has a release of Redisson and all that it needs at hand, unless what was made
// last is of the same sources; the release "" is the one that the program is written for. It returns the class path of
// both. Only the first build of a machine needs Maven and a network.
func Classpath(release string) (classpath string, err error) {
	_, self, _, _ := runtime.Caller(0)
	project := filepath.Join(filepath.Dir(self), "java")
	target := filepath.Join(project, "target")

	unlock, err := lockFile(filepath.Join(target, "build.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()

	sum, err := hashSources(project)
	if err != nil {
		return "", err
	}
	once := func(mark string, build func() error) error {
		mark = filepath.Join(target, mark)
		if built, err := os.ReadFile(mark); err == nil && string(built) == sum {
			return nil
		}
		if err := build(); err != nil {
			return err
		}
		return os.WriteFile(mark, []byte(sum), 0o644)
	}
	jar := filepath.Join(target, "redisson-driver.jar")
	err = once("sources.sha256", func() error { return maven(project, "package") })
	if err == nil {
		err = once("classes.sha256", func() error { return archive(jar) })
	}
	if err != nil || release == "" {
		return jar, err
	}
	libraries := "lib-" + release
	err = once(libraries+".sha256", func() error {
		return maven(project,
			"-Dredisson.version="+release, "-Dlibraries="+libraries, "dependency:copy-dependencies@libraries")
	})
	return filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, libraries, "*"), err
}

// maven runs Maven in the project: offline if everything is at hand, as that takes a fraction of the time. Its JVM is
// set up for a short life, like that of [program], unless MAVEN_OPTS says otherwise.
func maven(project string, flags ...string) error {
	for _, tool := range []string{"javac", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrNoJava, err)
		}
	}
	run := func(more ...string) ([]byte, error) {
		cmd := exec.Command("mvn", slices.Concat(more, []string{"-q", "-B"}, flags)...)
		cmd.Dir = project
		options := cmp.Or(os.Getenv("MAVEN_OPTS"), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
		cmd.Env = append(cmd.Environ(), "MAVEN_OPTS="+options)
		return cmd.CombinedOutput()
	}
	if _, err := run("-o"); err == nil {
		return nil
	}
	if output, err := run(); err != nil {
		return fmt.Errorf("interop: mvn %v: %w\n%s", flags, err, bytes.TrimSpace(output))
	}
	return nil
}

// archive has a JVM leave the classes that a client needs where the next ones find them ready: they begin in two thirds
// of the time.
func archive(jar string) error {
	java, err := start(program(jar, "-XX:ArchiveClassesAtExit="+classesOf(jar), "holdfast.interop.Driver"))
	if err != nil {
		return err
	}
	java.start("archivist", "connect", "nobody", "addresses=redis://127.0.0.1:1", "timeout=100").Answer()
	java.Close()
	return nil
}

// classesOf is the file of the classes that all JVMs with that jar share.
func classesOf(jar string) string { return strings.TrimSuffix(jar, ".jar") + ".jsa" }

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
