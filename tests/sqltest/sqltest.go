// Package sqltest starts databases for tests: PostgreSQL and MariaDB, each a process on a socket in a folder of its
// own, and SQLite in this process.
package sqltest

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // as users have it
	_ "github.com/lib/pq"              // likewise
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // likewise

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/tests/child"
)

// A Database is one that runs until the test ends.
type Database struct {
	*sql.DB
	Dialect fence.Dialect
	Driver  string // as database/sql knows it
	Source  string // likewise
}

// Start starts a database, with the table of package fence.
func Start(t testing.TB, d fence.Dialect) *Database {
	t.Helper()
	db := &Database{Dialect: d}
	switch d {
	case fence.PostgreSQL:
		db.Driver, db.Source = "postgres", startPostgres(t)
	case fence.MySQL:
		db.Driver, db.Source = "mysql", startMariaDB(t)
	default:
		db.Driver = "sqlite"
		db.Source = "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_txlock=immediate" +
			"&_pragma=synchronous(off)"
	}
	var err error
	db.DB, err = sql.Open(db.Driver, db.Source)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	const limit = time.Minute
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err = db.PingContext(t.Context()); err == nil {
			break
		}
		require.True(t, time.Now().Before(end), "%v does not answer within %v: %v", d, limit, err)
	}
	kind := "VARCHAR"
	if d == fence.MySQL {
		kind = "VARBINARY"
	}
	db.Do(t, "CREATE TABLE holdfast_fence (name "+kind+"(255) NOT NULL PRIMARY KEY, token BIGINT NOT NULL)")
	return db
}

// Do executes a statement.
func (db *Database) Do(t testing.TB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), db.Bind(statement), args...)
	require.NoError(t, err)
}

// Bind makes the placeholders of a statement, "?", those of the database.
func (db *Database) Bind(statement string) string {
	if db.Dialect != fence.PostgreSQL {
		return statement
	}
	var b strings.Builder
	for i, part := range strings.Split(statement, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// required is set where a missing database must not go unnoticed.
const required = "HOLDFAST_REQUIRE_SQL"

// binary finds a program of a database, or skips the test.
func binary(t testing.TB, name string, places ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, place := range places {
		found, _ := filepath.Glob(filepath.Join(place, name))
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	if os.Getenv(required) != "" {
		t.Fatalf("%s is missing: run `make databases`", name)
	}
	t.Skipf("%s is missing, so this is NOT TESTED: run `make databases`", name)
	return ""
}

// nobody is a user without rights: databases refuse to run as root.
const nobody = 65534

// folder is one for a server, with a short name, as sockets have a limit.
func folder(t testing.TB) string {
	dir, err := os.MkdirTemp("", "sql") //nolint:usetesting // its name would be too long
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	return dir
}

// command is one that runs as a user who is not root.
func command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = child.Attributes()
	if os.Getuid() == 0 {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		cmd.Dir = "/"
	}
	return cmd
}

// serve runs a server until the test ends. The signal has it end in good order: it leaves nothing in the system then.
func serve(t testing.TB, end syscall.Signal, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		late.Stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

func startPostgres(t testing.TB) (source string) {
	const places = "/usr/lib/postgresql/*/bin"
	initdb, postgres := binary(t, "initdb", places), binary(t, "postgres", places)
	dir := folder(t)
	data := filepath.Join(dir, "data")
	out, err := command(initdb, "-D", data, "-A", "trust", "-U", "app", "-N", "-E", "UTF8", "--locale=C").CombinedOutput()
	require.NoError(t, err, string(out))
	serve(t, syscall.SIGINT, command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "full_page_writes=off", "-c", "synchronous_commit=off"))
	return fmt.Sprintf("host=%s user=app dbname=postgres sslmode=disable", dir)
}

func startMariaDB(t testing.TB) (source string) {
	mariadbd, install := binary(t, "mariadbd", "/usr/sbin"), binary(t, "mariadb-install-db")
	dir := folder(t)
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
	out, err := command(install, "--no-defaults", "--datadir="+data, "--tmpdir="+dir,
		"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput()
	require.NoError(t, err, string(out))
	serve(t, syscall.SIGTERM, command(mariadbd, "--no-defaults", "--datadir="+data, "--tmpdir="+dir, "--socket="+socket,
		"--skip-networking", "--innodb-flush-log-at-trx-commit=0", "--pid-file="+filepath.Join(dir, "pid")))
	return "root@unix(" + socket + ")/mysql?clientFoundRows=true"
}
