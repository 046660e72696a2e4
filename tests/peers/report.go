package peers

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A column is a quantity: its heading, its key in samples, and how many digits it has after the point.
type column struct {
	head, key string
	digits    int
	scale     float64
}

var (
	rate     = column{"acquisitions/s", "rate", 0, 1}
	ofR1     = column{"of R1", "ofR1", 2, 1}
	p50      = column{"p50 ms", "p50", 3, 1}
	p99      = column{"p99 ms", "p99", 3, 1}
	calls    = column{"calls", "calls", 2, 1}
	server   = column{"server µs", "server", 1, 1}
	client   = column{"client µs", "client", 1, 1}
	allocs   = column{"allocations", "allocs", 1, 1}
	bytes    = column{"bytes", "bytes", 0, 1}
	jain     = column{"Jain", "jain", 2, 1}
	rss      = column{"RSS KiB each", "rss", 2, 1.0 / 1024}
	heap     = column{"heap KiB each", "heap", 2, 1.0 / 1024}
	first    = column{"RSS KiB of the first", "first", 0, 1.0 / 1024}
	idle     = column{"calls/s each", "idle", 3, 1}
	renewals = column{"calls each and lease", "renewals", 4, 1}
	lost     = column{"lost", "lost", 0, 1}
)

func (c column) show(samples []sample) string {
	v := median(samples, c.key) * c.scale
	if math.IsNaN(v) {
		return "–"
	}
	text := grouped(strconv.FormatFloat(v, 'f', c.digits, 64))
	if noise := median(samples, "noise"); c.key == ofR1.key && !math.IsNaN(noise) {
		text += fmt.Sprintf(" ± %.2f", noise)
	}
	return text
}

// grouped writes 12345 as 12,345.
func grouped(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}

// Markdown writes the tables.
func Markdown(tables Tables) string {
	var text strings.Builder
	for _, t := range tables {
		var full strings.Builder
		for _, r := range t.rows {
			if len(r.results) == 0 {
				continue
			}
			fmt.Fprintf(&full, "\n%s\n\n| |%s\n|---|%s\n", r.title, heads(t.columns), strings.Repeat("---|", len(t.columns)))
			for _, c := range contenders {
				if samples := r.results[c.name]; samples != nil {
					fmt.Fprintf(&full, "| %s |", c.name)
					for _, col := range t.columns {
						fmt.Fprintf(&full, " %s |", col.show(samples))
					}
					full.WriteString("\n")
				}
			}
		}
		if full.Len() == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n### %s\n", t.title)
		if t.about != "" {
			fmt.Fprintf(&text, "\n%s\n", t.about)
		}
		for _, key := range t.pivots {
			text.WriteString(t.pivot(key))
		}
		if t.pivots == nil {
			text.WriteString(full.String())
			continue
		}
		fmt.Fprintf(&text, "\n<details><summary>Everything that was measured</summary>\n%s\n</details>\n", full.String())
	}
	return text.String()
}

func heads(columns []column) (line string) {
	for _, c := range columns {
		line += " " + c.head + " |"
	}
	return line
}

// pivot is a table of one quantity: a line for each library, a column for each row.
func (t *table) pivot(key string) string {
	var text strings.Builder
	for _, col := range t.columns {
		if col.key != key {
			continue
		}
		titles, rule := "", ""
		measured := slices.DeleteFunc(slices.Clone(t.rows), func(r *row) bool { return len(r.results) == 0 })
		for _, r := range measured {
			titles, rule = titles+" "+r.title+" |", rule+"---|"
		}
		fmt.Fprintf(&text, "\n| %s |%s\n|---|%s\n", col.head, titles, rule)
		for _, c := range contenders {
			line, any := "| "+c.name+" |", false
			for _, r := range measured {
				line += " " + col.show(r.results[c.name]) + " |"
				any = any || r.results[c.name] != nil
			}
			if any {
				text.WriteString(line + "\n")
			}
		}
	}
	return text.String()
}

const begin, end = "<!-- What follows is written by make bench-peers. -->\n", "<!-- It ends here. -->\n"

// Write puts the tables into a page, between its two marks, and the plots beside it.
func Write(page, about string, tables Tables) error {
	old, err := os.ReadFile(page)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	before, rest, _ := strings.Cut(string(old), begin)
	_, after, _ := strings.Cut(rest, end)
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		return err
	}
	text := before + begin + "\n" + about + Markdown(tables) + "\n" + end + after
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return err
	}
	for _, t := range tables {
		for _, p := range t.plots {
			file := filepath.Join(filepath.Dir(page), "benchmarks-"+p.file+".svg")
			if svg := t.plot(p); svg != "" {
				if err := os.WriteFile(file, []byte(svg), 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A plot shows a quantity of some rows.
type plot struct {
	file, key, xLabel, yLabel string
	first, next               int // of the rows
}

func (t *table) plot(p plot) string {
	var x []string
	var lines []series
	for _, r := range t.rows[p.first:p.next] {
		title, _, _ := strings.Cut(r.title, " ")
		x = append(x, strings.TrimSuffix(title, ","))
	}
	for _, c := range contenders {
		line, some := series{name: c.name}, false
		for _, r := range t.rows[p.first:p.next] {
			line.y = append(line.y, median(r.results[c.name], p.key))
			some = some || r.results[c.name] != nil
		}
		if some {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return ""
	}
	return draw(x, p.xLabel, p.yLabel, lines)
}

// About says what was measured, on what, and when.
func About(set Settings, began time.Time, load string) string {
	pom, _ := os.ReadFile("../interop/java/pom.xml")
	redisson := regexp.MustCompile(`<redisson.version>(.*)</`).FindSubmatch(pom)[1]
	versions := []string{"Redisson " + string(redisson)}
	required, _ := os.ReadFile("go.mod") // a test's build information is silent about that
	for _, m := range regexp.MustCompile(`\s\S+/(redsync|redislock|rueidis|go-redis)(?:/v\d)? v(\S+)\n`).
		FindAllSubmatch(required, -1) {
		versions = append(versions, string(m[1])+" "+string(m[2]))
	}
	return fmt.Sprintf("%s; %d cores, %s; %s; %s; %s. %d rounds of %v, medians. Load before it began: %s.\n",
		began.UTC().Format("2 January 2006, 15:04 UTC"), runtime.NumCPU(), processor(), redisVersion(), runtime.Version(),
		strings.Join(versions, ", "), set.Rounds, set.Window, load)
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if model := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); model != nil {
		return string(model[1])
	}
	return runtime.GOARCH
}

func redisVersion() string {
	path, _ := redistest.RedisServerPath()
	text, _ := exec.Command(path, "--version").Output()
	return "Redis " + string(regexp.MustCompile(`v=(\S+)|$`).FindSubmatch(text)[1])
}
