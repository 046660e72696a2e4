package porting

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	guide   = "../../docs/redisson.md"
	library = "../.."
)

func readGuide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	return string(text)
}

// The Go code in the guide is the code of this package, word for word.
func TestTheGuideShowsThisCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readGuide(t), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		for function := range strings.SplitSeq(block[1], "\n\n//") {
			assert.Contains(t, all.String(), strings.TrimSuffix(function, "\n"))
		}
	}
}

// These are the types of the guide's variables.
var variables = map[string][]string{
	"l":  {"holdfast.Mutex", "rlock.Mutex", "fairlock.Mutex", "setlock.Mutex", "multilock.MultiLock", "multilock.RedLock"},
	"rw": {"rwlock.RWMutex"}, "sem": {"semaphore.Semaphore"}, "permits": {"semaphore.Expirable"}, "gate": {"latch.Latch"},
	"hold": {"holdfast.Hold"}, "session": {"holdfast.Session"},
}

// Every name of the toolkit that the guide mentions exists.
func TestTheGuidesNamesExist(t *testing.T) {
	exported := map[string]bool{} // package.Name, package.Type.Method and package.Type.Field
	for _, folder := range []string{".", "rlock", "fairlock", "rwlock", "setlock", "multilock", "semaphore", "latch"} {
		export(t, folder, exported)
	}
	used := 0
	exists := func(text string, names ...string) {
		used++
		for _, name := range names {
			if exported[name] {
				return
			}
		}
		assert.Fail(t, "no such name", text)
	}
	for _, code := range regexp.MustCompile("`[^`]+`").FindAllString(readGuide(t), -1) {
		code = strings.ReplaceAll(code, `\|`, "|")
		const packages = `\b(holdfast|rlock|fairlock|rwlock|setlock|semaphore|latch|multilock)`
		for _, name := range regexp.MustCompile(packages+`\.[A-Z]\w*(\.[A-Z]\w*)?`).FindAllString(code, -1) {
			exists(code, name)
		}
		for _, literal := range regexp.MustCompile(`\b(\w+\.\w*Options)\{(\w+):`).FindAllStringSubmatch(code, -1) {
			exists(code, literal[1]+"."+literal[2])
		}
		calls := regexp.MustCompile(`\b(l|rw|sem|permits|gate|hold|session)\.([A-Z]\w*)`)
		for _, call := range calls.FindAllStringSubmatch(code, -1) {
			var names []string
			for _, kind := range variables[call[1]] {
				names = append(names, kind+"."+call[2])
			}
			exists(code, names...)
		}
	}
	require.Greater(t, used, 100)
}

// export adds the exported names of a package.
func export(t *testing.T, folder string, exported map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(library, folder, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		name := parsed.Name.Name + "."
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				exported[name+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					exportSpec(name, spec, exported)
				}
			}
		}
	}
}

// receiver returns "Type." for a method.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	return kind.(*ast.Ident).Name + "."
}

func exportSpec(name string, spec ast.Spec, exported map[string]bool) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			exported[name+n.Name] = true
		}
	case *ast.TypeSpec:
		exported[name+s.Name.Name] = true
		if fields, ok := s.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				for _, n := range field.Names {
					exported[name+s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}
