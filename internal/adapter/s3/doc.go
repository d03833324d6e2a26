// Package s3 keeps what is too large for the log in a bucket: the content that
// commits name, checkpoints, and workspaces.
//
// A Store is a host.Log beside which blobs and checkpoints lie: it learns from
// the log which incarnation of a session a key stands for, so that a session
// deleted and made again under the same id never meets its predecessor's
// content, and it puts a commit's blobs before the commit that names them.
// Workspaces implements the file tools' port; a condition on a file is S3's own
// If-Match, so that writers in different functions do not overwrite each other.
//
// It makes no bucket, knows no rules of access and keeps no versions. Two
// writers that at the same moment make a file and a folder of one name both
// succeed: S3 has no condition over two keys. It may import the standard
// library, the AWS SDK, core and the host's ports.
package s3
