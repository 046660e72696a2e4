package docs

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A logLine is a line that can be logged: its levels, and the names of its attributes.
type logLine struct{ level, attributes string }

const everyLine = "session" // an attribute of every line

func TestEveryLogLineIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `(holdfast: [^`]+)` \\| ([A-Z, ]+) \\| ([^|]*) \\| [^|]+ \\|$")
	documented := map[string]logLine{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = logLine{m[2], strings.ReplaceAll(m[3], "`", "")}
	}
	require.Equal(t, logged(t), documented)
	require.Contains(t, string(text), "`"+everyLine+"`")
}

// logged returns every line that the library may log.
func logged(t *testing.T) map[string]logLine {
	t.Helper()
	lines := map[string]logLine{}
	var told []string // to a function that completes the line
	var helper *logLine
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "cmd", "tests", "otel", "docs"}, path):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join("../..", path), nil,
			parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			level, args := levelOf(call)
			if level == "" || len(args) == 0 {
				return true
			}
			line := func() logLine { return logLine{level, attributesOf(t, args[1:])} }
			switch message := args[0].(type) {
			case *ast.BinaryExpr:
				require.Equal(t, "holdfast: ", literal(message.X))
				require.Nil(t, helper, "there are two such functions")
				of := line()
				helper = &of
			case *ast.BasicLit:
				if text := literal(message); strings.HasPrefix(text, "holdfast: ") {
					lines[text] = line()
				} else {
					told = append(told, text)
				}
			default:
				t.Errorf("%s: a message that is not a literal", path)
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	for _, text := range told {
		require.NotNil(t, helper, text)
		lines["holdfast: "+text] = *helper
	}
	return lines
}

// levelOf returns the level of a call of a logger, with the arguments from the message on; "" if it is none.
func levelOf(call *ast.CallExpr) (level string, args []ast.Expr) {
	var name string
	switch called := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = called.Sel.Name
	case *ast.Ident: // a helper that is called in its own package
		name = called.Name
	}
	switch name {
	case "Debug", "Info", "Warn":
		return strings.ToUpper(name), call.Args
	case "Log":
		if len(call.Args) > 2 {
			return "WARN, DEBUG", call.Args[2:]
		}
	}
	return "", nil
}

// attributesOf returns the names of a call's attributes, in order.
func attributesOf(t *testing.T, args []ast.Expr) string {
	t.Helper()
	var names []string
	for i := 0; i < len(args); i++ {
		if constructor, ok := args[i].(*ast.CallExpr); ok {
			names = append(names, literal(constructor.Args[0]))
			continue
		}
		if name := literal(args[i]); name != "" {
			names = append(names, name)
			i++ // its value
		}
	}
	return strings.Join(names, ", ")
}

// literal returns the text of a string literal; "" for anything else.
func literal(e ast.Expr) string {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != gotoken.STRING {
		return ""
	}
	text, _ := strconv.Unquote(basic.Value)
	return text
}
