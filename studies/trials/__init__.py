"""What a trial does in its process: trains a model and scores it, or measures one, or a part of one."""
