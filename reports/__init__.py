"""Reports: thin papermill notebooks, the tables and figures that they call, and the HTML site around them.

Everything is read from the results database; nothing here imports a study, a model or torch.
"""
