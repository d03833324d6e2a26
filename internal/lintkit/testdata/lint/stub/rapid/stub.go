package rapid
