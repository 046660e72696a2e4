// Package docs checks what the pages say against the code: that the tests they name are there, and every log line.
package docs
