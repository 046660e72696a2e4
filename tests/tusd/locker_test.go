package tusd_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/tusd"
)

var _ handler.Locker = tusd.Locker{}

func lockOf(t *testing.T, l tusd.Locker) handler.Lock {
	t.Helper()
	lock, err := l.NewLock("one")
	require.NoError(t, err)
	return lock
}

func never() { panic("nobody asks") }

// What tusd expects of its own lockers.
func TestLocker(t *testing.T) {
	server := holdfasttest.NewServer(t)
	here, there := tusd.Locker{server.Open(nil)}, tusd.Locker{server.Open(nil)}

	t.Run("locks and unlocks", func(t *testing.T) {
		lock := lockOf(t, here)
		require.NoError(t, lock.Lock(t.Context(), never))
		require.NoError(t, lock.Unlock())
	})
	t.Run("gives up if the holder does not give way", func(t *testing.T) {
		first, asked := lockOf(t, here), make(chan struct{})
		require.NoError(t, first.Lock(t.Context(), func() { close(asked) }))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		require.Equal(t, handler.ErrLockTimeout, lockOf(t, there).Lock(ctx, never))
		require.NoError(t, first.Unlock())
	})
	t.Run("asks the holder to give way", func(t *testing.T) {
		first, second := lockOf(t, here), lockOf(t, there)
		require.NoError(t, first.Lock(t.Context(), func() { _ = first.Unlock() }))
		require.NoError(t, second.Lock(t.Context(), never))
		require.NoError(t, second.Unlock())
	})
	t.Run("stops a request that has lost its lock", func(t *testing.T) {
		lock, stopped := lockOf(t, here), make(chan struct{})
		require.NoError(t, lock.Lock(t.Context(), func() { close(stopped) }))
		was, err := rlock.New(here.Session, "upload:one", nil).ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, was)
		<-stopped
	})
}

// serve starts a tusd server on a directory that it shares with others.
func serve(t *testing.T, dir string, locker handler.Locker) *httptest.Server {
	t.Helper()
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer)
	composer.UseLocker(locker)
	h, err := handler.NewHandler(handler.Config{StoreComposer: composer, BasePath: "/files/"})
	require.NoError(t, err)
	srv := httptest.NewServer(http.StripPrefix("/files/", h))
	t.Cleanup(srv.Close)
	return srv
}

// send sends a request, and returns the header of the response. It returns nil if there is none.
func send(t *testing.T, method, url string, header map[string]string, body io.Reader) http.Header {
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if !assert.NoError(t, err) {
		return nil
	}
	r.Header.Set("Tus-Resumable", "1.0.0")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	_ = response.Body.Close()
	return response.Header
}

// A client whose connection hangs goes on with its upload at another server.
func TestAnUploadGoesOnAtAnotherServer(t *testing.T) {
	const all = "1234567890"
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	server, dir := holdfasttest.NewServer(t), t.TempDir()
	first := serve(t, dir, tusd.Locker{server.Open(nil)})
	second := serve(t, dir, tusd.Locker{server.Open(nil)})
	length := map[string]string{"Upload-Length": strconv.Itoa(len(all))}
	_, id, ok := strings.Cut(send(t, http.MethodPost, first.URL+"/files/", length, nil).Get("Location"), "/files/")
	require.True(t, ok)

	part := func(offset string) map[string]string {
		return map[string]string{"Upload-Offset": offset, "Content-Type": "application/offset+octet-stream"}
	}
	body, hangs := io.Pipe()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		send(t, http.MethodPatch, first.URL+"/files/"+id, part("0"), body)
	}()
	_, err := io.WriteString(hangs, all[:5])
	require.NoError(t, err)
	require.Eventually(t, func() bool { // from then on tusd can be interrupted
		stored, err := os.Stat(filepath.Join(dir, id))
		return err == nil && stored.Size() == 5
	}, 10*time.Second, time.Millisecond)

	has := send(t, http.MethodHead, second.URL+"/files/"+id, nil, nil).Get("Upload-Offset") // and the first has stopped
	n, err := strconv.Atoi(has)
	require.NoError(t, err)
	rest := send(t, http.MethodPatch, second.URL+"/files/"+id, part(has), strings.NewReader(all[n:]))
	require.Equal(t, "10", rest.Get("Upload-Offset"))
	stored, err := os.ReadFile(filepath.Join(dir, id))
	require.NoError(t, err)
	require.Equal(t, all, string(stored))
	_ = hangs.Close()
	<-stopped
}

// Another request may have the lock as soon as the session of the first is closed: that must stop, or two would write.
func TestARequestStopsWhenItsSessionIsClosed(t *testing.T) {
	server := holdfasttest.NewServer(t)
	here := tusd.Locker{server.Open(nil)}
	stopped := make(chan struct{})
	require.NoError(t, lockOf(t, here).Lock(t.Context(), func() { close(stopped) }))
	require.NoError(t, here.Session.Close())
	second := lockOf(t, tusd.Locker{server.Open(nil)})
	require.NoError(t, second.Lock(t.Context(), never)) // it writes now
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the first request writes on, while the second has its lock")
	}
	require.NoError(t, second.Unlock())
}
