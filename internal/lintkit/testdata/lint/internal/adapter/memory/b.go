package memory

type wireItem struct {
	UpdatedAt int `json:"updated_at"`
}
