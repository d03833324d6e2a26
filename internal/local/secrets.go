package local

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// Names in the data folder, beside those of the store.
const (
	keyFile          = "local.key"
	secretsFile      = "secrets.json"
	workspacesFolder = "workspaces"
)

// keyForm is what a local key looks like: pk_<id>_<secret>, as any key.
var keyForm = regexp.MustCompile(`^pk_local_[a-z0-9]{40,128}$`)

// KeyFile is where the key to a data folder's server is kept.
func KeyFile(folder string) string { return filepath.Join(folder, keyFile) }

// ReadKey reads the key to a data folder's server, as the commands do.
func ReadKey(folder string) (string, error) {
	data, err := os.ReadFile(KeyFile(folder))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(data))
	if !keyForm.MatchString(key) {
		return "", fmt.Errorf("%s holds no key of this program: take the file away and start the server again, which makes a new one", KeyFile(folder))
	}
	return key, nil
}

// makeKey returns the folder's key, made on the first start.
func makeKey(folder string) (string, error) {
	err := createOnce(KeyFile(folder), func() ([]byte, error) {
		return []byte("pk_local_" + strings.ToLower(rand.Text()+rand.Text()) + "\n"), nil
	})
	if err != nil {
		return "", err
	}
	return ReadKey(folder)
}

// secrets sign what the server hands out and wants to recognise later.
type secrets struct {
	Promises []promiseSecret `json:"promises"` // the first signs, all verify
	Cursors  []byte          `json:"cursors"`
}

type promiseSecret struct {
	ID  string `json:"id"`
	Key []byte `json:"key"`
}

const secretBytes = 32

func (s secrets) keyring() host.Keyring {
	ring := make(host.Keyring, len(s.Promises))
	for i, p := range s.Promises {
		ring[i] = host.Secret{ID: p.ID, Key: p.Key}
	}
	return ring
}

// valid says whether every secret is long enough to be one.
func (s secrets) valid() bool {
	ok := len(s.Promises) > 0 && len(s.Cursors) >= secretBytes
	for _, p := range s.Promises {
		ok = ok && p.ID != "" && len(p.Key) >= secretBytes
	}
	return ok
}

// makeSecrets returns the folder's secrets, made on the first start. Losing
// them would void every promise token that is out, so a file that cannot be
// read is an error and is not replaced.
func makeSecrets(folder string) (secrets, error) {
	path := filepath.Join(folder, secretsFile)
	err := createOnce(path, func() ([]byte, error) {
		fresh := secrets{Promises: []promiseSecret{{ID: "1", Key: random()}}, Cursors: random()}
		return json.MarshalIndent(fresh, "", "  ")
	})
	if err != nil {
		return secrets{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return secrets{}, err
	}
	var s secrets
	if err := json.Unmarshal(data, &s); err != nil || !s.valid() {
		return secrets{}, fmt.Errorf("%s is damaged: restore it from a backup, or take it away, which voids the tokens of promises that are still open", path)
	}
	return s, nil
}

func random() []byte {
	b := make([]byte, secretBytes)
	// It never returns an error: see crypto/rand.
	_, _ = rand.Read(b)
	return b
}

// createOnce makes a file that only its owner may read, whole or not at all: a
// crash between two bytes of a key would lock its owner out. A file that is
// there stays as it is, but for being open to others, which is put right.
func createOnce(path string, content func() ([]byte, error)) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	}
	data, err := content()
	if err != nil {
		return err
	}
	return createWhole(path, data)
}

func createWhole(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return syncFolder(filepath.Dir(path))
}
