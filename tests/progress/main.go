// Command progress runs go test with the arguments it is given and shows how the run is getting on: packages as they
// end, tests that are skipped, the output of tests that fail, standstills, and every few seconds what is running.
// Each "--" begins the arguments of another go test at the same time. The last of several gets the processors when the
// others leave them idle.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// beat is how often a run without news says what is running.
const beat = 15 * time.Second

// stoodStill begins a line in which a test binary says so of itself: it explains failures of any test.
const stoodStill = "stood still for "

func main() {
	var runs []*exec.Cmd
	var outs []io.Reader
	for _, words := range commands(os.Args[1:]) {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stderr = os.Stderr
		runs = append(runs, cmd)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "progress:", err)
			os.Exit(1)
		}
		outs = append(outs, out)
	}
	r := newReport(os.Stdout)
	r.follow(lines(outs...))
	var err error
	for _, cmd := range runs {
		err = errors.Join(err, cmd.Wait()) // go test fails if anything did
	}
	if r.skipped > 0 {
		fmt.Printf("\nSKIPPED, so this run shows less than it could:\n%s\n\n", strings.Join(r.skips, "\n"))
	}
	fmt.Printf("in %s:\n%d passed, %d failed, %d skipped\n", r.time(), r.passed, r.failed, r.skipped)
	if err != nil || r.failed > 0 {
		os.Exit(1)
	}
}

// commands returns what runs at the same time.
func commands(args []string) (all [][]string) {
	for at := slices.Index(args, "--"); at >= 0; at = slices.Index(args, "--") {
		all = append(all, goTest(args[:at]))
		args = args[at+1:]
	}
	last := goTest(args)
	if all != nil {
		last = append([]string{"nice", "-n", "5"}, last...)
	}
	return append(all, last)
}

func goTest(args []string) []string { return append([]string{"go", "test", "-json"}, args...) }

// lines sends the lines of streams until all of them end.
func lines(from ...io.Reader) <-chan []byte {
	all := make(chan []byte)
	var reading sync.WaitGroup
	for _, in := range from {
		reading.Go(func() {
			for reader := bufio.NewReader(in); ; {
				line, err := reader.ReadBytes('\n')
				if len(line) > 0 {
					all <- line
				}
				if err != nil {
					return
				}
			}
		})
	}
	go func() {
		reading.Wait()
		close(all)
	}()
	return all
}

// An event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// A test is one of a package; of the package itself it has no name.
type test struct{ pkg, name string }

// A report is what is known of a run.
type report struct {
	out                     io.Writer
	began                   time.Time
	running                 map[test]time.Time // tests that have begun, and when they last did
	parents                 map[test]bool      // tests that have begun subtests, and wait for them
	said                    map[test][]string  // what they have written
	skips                   []string           // what skipped tests have written
	passed, failed, skipped int                // tests, without their subtests
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, began: time.Now(), running: map[test]time.Time{}, parents: map[test]bool{}, said: map[test][]string{},
	}
}

// follow reports until there are no more lines.
func (r *report) follow(lines <-chan []byte) {
	news := time.NewTicker(beat)
	defer news.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return
			}
			var e event
			if json.Unmarshal(line, &e) != nil { // of the build
				_, _ = r.out.Write(line)
				continue
			}
			if r.take(e) {
				news.Reset(beat)
			}
		case <-news.C:
			r.say("running: %s", r.oldest())
		}
	}
}

// take handles an event, and reports whether something was said about it.
func (r *report) take(e event) (news bool) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "run", "cont":
		r.running[t] = time.Now()
		for at, c := range t.name { // a subtest's own name may have slashes, too
			if c == '/' {
				r.parents[test{t.pkg, t.name[:at]}] = true
			}
		}
	case "pause":
		delete(r.running, t)
	case "output", "build-output":
		if t.pkg == "" {
			fmt.Fprint(r.out, e.Output)
			return true
		}
		r.said[t] = append(r.said[t], e.Output)
		if strings.HasPrefix(e.Output, stoodStill) { // whichever test it is taken for
			r.say("%s %s", t.pkg, strings.TrimSpace(e.Output))
		}
	case "pass", "fail", "skip":
		if t.name == "" {
			r.cutOff(t.pkg)
		}
		news = r.end(t, e.Action)
	}
	return news
}

// end reports how a test or a package has ended.
func (r *report) end(t test, how string) (news bool) {
	defer func() {
		delete(r.running, t)
		delete(r.said, t)
	}()
	if t.name == "" { // the last line of a package says how it went
		said := r.said[t]
		if how == "pass" {
			said = slices.DeleteFunc(said, func(line string) bool { return !strings.HasPrefix(line, "ok ") })
		}
		if how != "skip" { // without tests
			r.say("%s", strings.TrimSpace(strings.Join(said, "")))
		}
		return how != "skip"
	}
	switch how {
	case "pass":
		if !strings.Contains(t.name, "/") {
			r.passed++
		}
		return false
	case "fail":
		r.failed++
	case "skip":
		r.skipped++
	}
	lines := slices.DeleteFunc(r.said[t], func(line string) bool { return strings.HasPrefix(line, "=== ") })
	said := fmt.Sprintf("%s %s\n%s", t.pkg, t.name, strings.TrimRight(strings.Join(lines, ""), "\n"))
	r.say("%s", said)
	if how == "skip" {
		r.skips = append(r.skips, said)
	}
	return true
}

// cutOff reports the tests that the end of their package has cut off. What they have said by then may be why they did
// not end.
func (r *report) cutOff(pkg string) {
	for _, t := range r.byAge() {
		if t.pkg == pkg {
			r.said[t] = append(r.said[t], "it did not end\n")
			r.end(t, "fail")
		}
	}
}

// byAge returns the tests that are running, the oldest first.
func (r *report) byAge() []test {
	all := slices.SortedFunc(maps.Keys(r.running), func(a, b test) int {
		return cmp.Or(r.running[a].Compare(r.running[b]), strings.Compare(a.name, b.name))
	})
	return slices.DeleteFunc(all, func(t test) bool { return t.name == "" })
}

// oldest names the tests that have run for the longest.
func (r *report) oldest() string {
	all := slices.DeleteFunc(r.byAge(), func(t test) bool { return r.parents[t] })
	var names []string
	for _, t := range all {
		if len(names) < 3 {
			names = append(names, fmt.Sprintf("%s (%s)", t.name, time.Since(r.running[t]).Round(time.Second)))
		}
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s; %d passed so far", cmp.Or(strings.Join(names, ", "), "the compiler"), r.passed)
}

func (r *report) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%6s  %s\n", r.time(), fmt.Sprintf(format, args...))
}

func (r *report) time() string { return time.Since(r.began).Round(time.Second).String() }
