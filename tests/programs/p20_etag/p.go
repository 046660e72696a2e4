// Compare and swap behind HTTP: a holder that comes too late changes nothing.
package p20

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// Append adds a line to an object, if nobody has changed it since it was read.
func Append(ctx context.Context, s *holdfast.Session, url, line string) error {
	return holdfast.Do(ctx, rlock.New(s, url, nil).Lock, func(ctx context.Context) error {
		text, etag, err := get(ctx, url)
		if err != nil {
			return err
		}
		return put(ctx, url, text+line+"\n", etag)
	})
}

var errChanged = errors.New("somebody has changed it since it was read")

func get(ctx context.Context, url string) (text, etag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", "", errors.New(resp.Status)
	}
	etag = resp.Header.Get("ETag")
	if !strings.HasPrefix(etag, `"`) { // W/"…" may be the same for another text
		return "", "", errors.New("it has no strong ETag")
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), etag, err
}

func put(ctx context.Context, url, text, etag string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("If-Match", etag)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPreconditionFailed:
		return errChanged
	case resp.StatusCode >= http.StatusMultipleChoices:
		return errors.New(resp.Status)
	}
	return nil
}
