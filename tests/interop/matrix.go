package interop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// Matrix is a table of what tests have to prove. Each place in it is proven by the tests that say so, has failed if one
// of them has, or cannot be, for a reason. Its methods may be called from any goroutine.
type Matrix struct {
	rows, columns []string

	mu      sync.Mutex
	places  map[place]*verdict
	reasons []string // the first one is footnote 1
}

// place is where a row and a column meet.
type place struct{ row, column string }

// verdict is what is known of a place.
type verdict struct {
	proven, failed bool
	cannotBe       bool
	footnotes      []int
}

// NewMatrix makes a table in which nothing is proven.
func NewMatrix(rows, columns []string) *Matrix {
	return &Matrix{rows: rows, columns: columns, places: map[place]*verdict{}}
}

// Record notes how a test ended that is to prove a place.
func (m *Matrix) Record(row, column string, passed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if passed {
		m.at(row, column).proven = true
	} else {
		m.at(row, column).failed = true
	}
}

// Except says why a place cannot be proven, and need not.
func (m *Matrix) Except(row, column, reason string) {
	m.Remark(row, column, reason)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(row, column).cannotBe = true
}

// Remark says what is not proven of a place, which all the same has to be.
func (m *Matrix) Remark(row, column, remark string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	number := slices.Index(m.reasons, remark) + 1
	if number == 0 {
		m.reasons = append(m.reasons, remark)
		number = len(m.reasons)
	}
	v := m.at(row, column)
	v.footnotes = append(v.footnotes, number)
}

// at is the verdict of a place, which must be one of the table.
func (m *Matrix) at(row, column string) *verdict {
	if !slices.Contains(m.rows, row) || !slices.Contains(m.columns, column) {
		panic(fmt.Sprintf("interop: the matrix has no %q of %q", column, row))
	}
	v := m.places[place{row, column}]
	if v == nil {
		v = &verdict{}
		m.places[place{row, column}] = v
	}
	return v
}

// Empty reports whether no test has recorded anything.
func (m *Matrix) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.places {
		if v.known() {
			return false
		}
	}
	return true
}

// Missing are the places of which nothing is known.
func (m *Matrix) Missing() (missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range m.rows {
		for _, column := range m.columns {
			if m.at(row, column).open() {
				missing = append(missing, row+": "+column)
			}
		}
	}
	return missing
}

// String is the table, and its footnotes. Rows of which no test has said anything are left out, unless none can.
func (m *Matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) } // a builder takes everything
	line(append([]string{""}, m.columns...)...)
	footnotes := map[int]bool{}
	for _, row := range m.rows {
		cells, known, open := []string{row}, false, false
		for _, column := range m.columns {
			v := m.at(row, column)
			cells = append(cells, v.String())
			known = known || v.known()
			open = open || v.open()
		}
		if open && !known {
			continue
		}
		line(cells...)
		for _, column := range m.columns {
			for _, number := range m.at(row, column).footnotes {
				footnotes[number] = true
			}
		}
	}
	_ = table.Flush()
	for i, reason := range m.reasons {
		if footnotes[i+1] {
			_, _ = fmt.Fprintf(&text, "(%d) %s\n", i+1, reason)
		}
	}
	return text.String()
}

// known reports whether a test has said something.
func (v *verdict) known() bool { return v.proven || v.failed }

// open reports whether one has to, and has not.
func (v *verdict) open() bool { return !v.known() && !v.cannotBe }

// String is ok, FAILED or "-" if nothing is known, and the footnotes.
func (v *verdict) String() string {
	var words []string
	switch {
	case v.failed:
		words = append(words, "FAILED")
	case v.proven:
		words = append(words, "ok")
	case v.open():
		words = append(words, "-")
	}
	for _, number := range v.footnotes {
		words = append(words, fmt.Sprintf("(%d)", number))
	}
	return strings.Join(words, " ")
}
